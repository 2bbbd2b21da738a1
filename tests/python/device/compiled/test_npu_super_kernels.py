# SPDX-License-Identifier: Apache-2.0
"""Super kernels of compiled code on tensors of npu, by the marks of torch.npu."""

from __future__ import annotations

import pytest
import torch
import torch_npu  # noqa: F401

import npugraph


@pytest.mark.feature("1.18")
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_tasks_between_the_marks_become_one(device: str):
    weights = torch.randn(16, 16, device=device)

    def fn(x: torch.Tensor) -> torch.Tensor:
        torch.npu.super_kernel_scope_begin("layers")
        for _ in range(3):
            x = torch.softmax(torch.relu(x @ weights) + 1, -1)
        torch.npu.super_kernel_scope_end("layers")
        return x

    x = torch.randn(4, 16, device=device)
    results = []
    for switch in (False, True):
        compiled = torch.compile(fn, backend="npugraph_ex", fullgraph=True, options={"super_kernel_optimize": switch})
        with torch.no_grad():
            compiled(x)
            with npugraph.task_log() as log:
                results.append(compiled(x))
        names = [entry.name for entry in log]
        assert names == ["super_kernel.layers"] if switch else len(names) == 6 and "layers" not in str(names)
    assert torch.equal(*results)
    torch.testing.assert_close(results[0], fn(x))


@pytest.mark.feature("1.18", "4.15")
def test_what_marks_and_graphs_take():
    for mark in (torch.npu.super_kernel_scope_begin, torch.npu.super_kernel_scope_end):
        with pytest.raises(RuntimeError, match=f"{mark.__name__}: scope_name is empty, allowed is a name, or None"):
            mark("")
        for name in ("   ", "\t\n"):
            with pytest.raises(RuntimeError, match=f"{mark.__name__}: scope_name is blank, allowed is a name, or None"):
                mark(name)
        with pytest.raises(RuntimeError, match=f"{mark.__name__}.*Expected a value of type 'Optional.str.'"):
            mark(3)
        mark(None)

    def fn(x: torch.Tensor) -> torch.Tensor:
        torch.npu.super_kernel_scope_begin("")
        return x + 1

    with pytest.raises(RuntimeError, match="super_kernel_scope_begin: scope_name is empty"):
        torch.compile(fn, backend="npugraph_ex", fullgraph=True)(torch.ones(4))
    graph = torch.npu.NPUGraph()
    graph.super_kernel_optimize({"stream-fusion": 1, "dcci-disable-on-kernel": ["add"]}, {"debug-aic-num": 1})
    graph.super_kernel_optimize({}, {})
    optimize = {"preload_code": 1, "split_mode": 4, "constant_codegen": 1, "auto_op_parallel": 0, "opt_extend": "a=1"}
    optimize |= {"early_start": 1, "ubuf_lock_ignore_kernel": ["add"], "aggressive_opt_strategies": ["x", "y"]}
    debug = {"debug_sync_all": 1, "debug_op_exec_trace": 0, "debug_cross_core_sync_check": 1, "debug_extend": "a=1"}
    debug |= {"debug_per_op_max_core_num": 8}
    for hyphens in (False, True):
        names = {name.replace("_", "-") if hyphens else name: value for name, value in optimize.items()}
        graph.super_kernel_optimize(names | {"stream-fusion": 1})
        names = {name.replace("_", "-") if hyphens else name: value for name, value in debug.items()}
        graph.super_kernel_optimize(None, names | {"debug-aic-num": 1, "debug-aiv-num": 2})
        graph.super_kernel_optimize(None, names)
    for optimize, debug, message in (
        ({"fast": 1}, None, r"optimize_options takes a dict of .*; there is no 'fast'"),
        ("fast", None, r"optimize_options takes a dict of .*, got 'fast' \(str\)"),
        (
            {"dcci-disable-on-kernel": ["add", 3]},
            None,
            r"takes a list of names of operators, got \['add', 3\] \(list\)",
        ),
        ({"dcci-disable-on-kernel": [""]}, None, r"takes a list of names of operators, got \[''\] \(list\)"),
        ({"stream-fusion": "1"}, None, r"'stream-fusion' takes 0 or 1, got '1' \(str\)"),
        (None, {"debug-aiv-num": 2}, r"debug_options takes .* are together 1:0, 0:1, 1:1, 1:2, got"),
        (None, {"debug-aiv-num": 1.0}, r"'debug-aiv-num' takes 0 or 1 or 2, got 1.0 \(float\)"),
        (
            None,
            {"debug-aiv-num": 2, "debug_sync_all": 1},
            r"debug_options takes .* are together 1:0, 0:1, 1:1, 1:2, got",
        ),
        (
            {"preload_code": None},
            None,
            r"'preload-code' takes an int .* or a str or a list of names, got None",
        ),
        (
            None,
            {"debug_extend": 1.5},
            r"'debug-extend' takes an int .* or a list of names, got 1.5 \(float\)",
        ),
    ):
        with pytest.raises(RuntimeError, match=f"NPUGraph.super_kernel_optimize: .*{message}"):
            graph.super_kernel_optimize(optimize, debug)


@pytest.mark.feature("4.15", "11.09")
def test_a_mark_without_its_other_half_is_an_error():
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch.npu.super_kernel_scope_begin("layers")
        return x + 1

    message = (
        r"super kernel scope 'layers' begins at .*test_npu_super_kernels.py:\d+ in fn, and does not end in this graph"
    )
    with torch.no_grad(), pytest.raises(RuntimeError, match=message):
        torch.compile(fn, backend="npugraph_ex", fullgraph=True)(torch.ones(4))
