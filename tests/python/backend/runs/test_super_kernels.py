# SPDX-License-Identifier: Apache-2.0
"""Scopes of super kernels in compiled code: what becomes one task, what cuts a scope, and scopes that do not close."""

from __future__ import annotations

import pytest
import torch

import npugraph
from npugraph import NpugraphWarning
from npugraph_ex.scope import super_kernel
from tests.python.backend.checks import compile_ex, task_names

WEIGHTS = torch.randn(16, 16)


def layer(x: torch.Tensor) -> torch.Tensor:
    """Computes two kernels: a product with its epilogue, and a softmax."""
    return torch.softmax(torch.relu(x @ WEIGHTS) + 1, -1)


def block(x: torch.Tensor) -> torch.Tensor:
    with super_kernel("block"):
        for _ in range(3):
            x = layer(x)
    return x


def both(fn, *inputs, **options):
    """Checks that results with and without super kernels are equal bit by bit. Returns the artifact with super kernels
    and the one without."""
    npugraph.reset()
    without = compile_ex(fn)
    merged = compile_ex(fn, options={"super_kernel_optimize": True, **options})
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(merged(*inputs), without(*inputs), rtol=0, atol=0)
    merged, plain = npugraph.artifacts()
    return merged, plain


@pytest.mark.feature("1.18")
def test_adjacent_tasks_of_a_scope_become_one():
    x = torch.randn(4, 16)
    merged, plain = both(block, x)
    assert len(plain.tasks) == 6
    (task,) = merged.tasks
    assert (task.name, task.kind) == ("super_kernel.block", "super_kernel")
    assert "test_super_kernels.py" in task.source and task.origin.count(",") > 5
    assert "Super kernels\n  block: 6 tasks became 1 super kernel\n" in merged.explain()
    assert "Super kernels" not in plain.explain()
    with npugraph.task_log() as log, torch.no_grad():
        torch.compile(block, backend="npugraph_ex", options={"super_kernel_optimize": True})(x)
    assert [entry.name for entry in log] == ["super_kernel.block"]


@pytest.mark.feature("1.18")
def test_operators_that_are_not_generated_cut_a_scope():
    def fn(x):
        with super_kernel("block"):
            x = layer(layer(x))
            values, _ = torch.sort(x)
            return layer(layer(values))

    merged, _ = both(fn, torch.randn(4, 16))
    assert task_names(merged) == ["super_kernel.block", "aten.sort", "super_kernel.block"]
    page = merged.explain()
    assert "block: 9 tasks became 2 super kernels and 1 task\n    cut by aten.sort" in page
    assert ", which is not generated code" in page


@pytest.mark.feature("1.18")
def test_scopes_are_told_apart_by_name():
    def fn(x):
        with super_kernel("a"):
            x = layer(x)
        with super_kernel("a"):
            x = layer(x)
        with super_kernel("b"):
            x = layer(x)
            with super_kernel(None):
                x = layer(x)
        return layer(x)

    merged, _ = both(fn, torch.randn(4, 16))
    names = task_names(merged)
    assert names[:2] == ["super_kernel.a", "super_kernel.b"]
    assert len(names) == 6 and not any("super" in name for name in names[2:])


def test_intermediate_results_take_memory_in_turn():
    def deep(x):
        with super_kernel("deep"):
            for _ in range(12):
                x = layer(x)
        return x

    merged, plain = both(deep, torch.randn(512, 16))
    assert task_names(merged) == ["super_kernel.deep"] and len(plain.tasks) > 12
    assert merged.memory["live_bytes"] == plain.memory["live_bytes"]
    npugraph.poison_freed_memory()
    try:
        both(deep, torch.randn(512, 16))
    finally:
        npugraph.poison_freed_memory(False)


def test_training_has_super_kernels_too():
    weights = torch.randn(16, 16, requires_grad=True)

    def fn(x):
        with super_kernel("block"):
            return torch.softmax(torch.relu(x @ weights) + 1, -1) * x

    x = torch.randn(4, 16)
    merged = compile_ex(fn, options={"super_kernel_optimize": True})
    (gradient,) = torch.autograd.grad(merged(x).square().sum(), weights)
    (want,) = torch.autograd.grad(fn(x).square().sum(), weights)
    torch.testing.assert_close(gradient, want)
    assert task_names(npugraph.artifacts()[0]) == ["super_kernel.block"]


def test_sizes_may_be_symbols():
    fn = compile_ex(block, options={"super_kernel_optimize": True}, dynamic=True)
    with torch.no_grad():
        for rows in (4, 7, 300):
            x = torch.randn(rows, 16)
            torch.testing.assert_close(fn(x), block(x))
    (artifact,) = npugraph.artifacts()
    assert task_names(artifact) == ["super_kernel.block"]
    assert len(artifact.instances) == 3


def test_a_saved_program_has_its_super_kernels(tmp_path):
    merged, _ = both(block, torch.randn(4, 16))
    path = str(tmp_path / "program.ngp")
    merged.save(path)
    x = torch.randn(4, 16)
    with torch.no_grad():
        torch.testing.assert_close(npugraph.load(path)([x, WEIGHTS])[0], block(x))


def test_an_error_names_the_part():
    def fn(x, index):
        with super_kernel("block"):
            x = layer(x)
            return torch.softmax(x.gather(1, index) + 1, -1)

    fn_ex = compile_ex(fn, options={"super_kernel_optimize": True})
    with torch.no_grad():
        x = torch.randn(4, 16)
        fn_ex(x, torch.zeros(4, 2, dtype=torch.int64))
        assert task_names(npugraph.artifacts()[-1]) == ["super_kernel.block"]
        with pytest.raises(
            RuntimeError, match=r"index 16 is out .* \(part \d of super_kernel.block, loop.gather.* in fn\)"
        ):
            fn_ex(x, torch.full((4, 2), 16))


@pytest.mark.feature("1.18", "4.15")
def test_a_strict_scope_that_is_cut_is_an_error():
    def fn(x):
        with super_kernel("block"):
            return layer(torch.sort(layer(x))[0])

    def own(x):
        with super_kernel("block", "strict-scope-check=abort"):
            return layer(torch.sort(layer(x))[0])

    strict = {"super_kernel_optimize_options": {"strict-scope-check": "abort"}}
    message = r"super kernel scope 'block' has strict-scope-check=abort, and 1 of its 5 tasks cannot .*: aten.sort.*fn"
    with torch.no_grad(), pytest.raises(RuntimeError, match=message):
        compile_ex(fn, options={"super_kernel_optimize": True, **strict})(torch.randn(4, 16))
    with torch.no_grad(), pytest.raises(RuntimeError, match=message.replace("fn", "own")):
        compile_ex(own, options={"super_kernel_optimize": True})(torch.randn(4, 16))
    both(block, torch.randn(4, 16), **strict)
    both(fn, torch.randn(4, 16), super_kernel_optimize_options={"strict-scope-check": "bypass"})


@pytest.mark.feature("1.18")
def test_workers_are_bounded_by_the_debug_options():
    x = torch.randn(700, 16)
    for numbers, most in (({"debug-aic-num": 1}, 1), ({"debug-aic-num": 1, "debug-aiv-num": 2}, 3)):
        merged, _ = both(block, x, super_kernel_debug_options=numbers)
        assert "super_kernel.block" in merged.program()
        fn = compile_ex(block, options={"super_kernel_optimize": True, "super_kernel_debug_options": numbers})
        with npugraph.task_log() as log, torch.no_grad():
            fn(x)
        assert log and all(len(entry.workers) <= most for entry in log)


@pytest.mark.feature("1.18")
def test_dumps_of_the_optimized_graph_are_ignored_with_a_warning(tmp_path):
    options = {"super_kernel_optimize": True, "dump_tensor_data": True, "data_dump_dir": str(tmp_path)}
    x = torch.randn(4, 16)
    with torch.no_grad(), pytest.warns(NpugraphWarning, match="'dump_tensor_data' has no effect with super_k"):
        compile_ex(block, options=options)(x)
    assert not list(tmp_path.iterdir())
    with torch.no_grad():
        torch._dynamo.reset()
        compile_ex(block, options=options | {"data_dump_stage": "original"})(x)
    assert list(tmp_path.iterdir())


@pytest.mark.feature("4.15", "11.09")
def test_a_graph_break_inside_of_a_scope_is_an_error_that_names_it():
    def fn(x):
        torch.ops.npugraph_ex.super_kernel_scope_begin("open")
        x = layer(x)
        print(end="")
        torch.ops.npugraph_ex.super_kernel_scope_end("open")
        return x

    message = (
        r"super kernel scope 'open' begins at .*test_super_kernels.py:\d+ in fn, and does not end in this graph, "
        r"because of a graph break at .*test_super_kernels.py:\d+ in fn: .*. Move that out of the scope"
    )
    with torch.no_grad(), pytest.raises(RuntimeError, match=message):
        torch.compile(fn, backend="npugraph_ex")(torch.randn(4, 16))


@pytest.mark.feature("4.15")
def test_a_graph_break_in_the_block_of_a_scope_is_an_error_that_names_it():
    def fn(x):
        with super_kernel("block"):
            x = layer(x)
            print(end="")
        return x

    message = (
        r"super kernel scope 'block' begins, and does not end in this graph; its block at .*super_kernels.py:\d+ in "
        r"fn is not compiled, because of a graph break: Failed to trace builtin operator: .* `print` .* Move that out"
    )
    with torch.no_grad(), pytest.raises(RuntimeError, match=message):
        torch.compile(fn, backend="npugraph_ex")(torch.randn(4, 16))


@pytest.mark.feature("2.11", "4.15", "11.09")
@pytest.mark.parametrize("mark, words", [("begin", "begins"), ("end", "ends")])
def test_scopes_that_the_program_does_not_close_are_errors(mark, words):
    def fn(x):
        getattr(torch.ops.npugraph_ex, f"super_kernel_scope_{mark}")("half")
        return layer(x)

    with (
        torch.no_grad(),
        pytest.raises(RuntimeError, match=rf"super kernel scope 'half' {words} at .* in fn, and does not"),
    ):
        compile_ex(fn)(torch.randn(4, 16))


@pytest.mark.feature("11.09")
def test_a_scope_is_named_by_the_line_of_the_user():
    def fn(x):
        super_kernel("half").__enter__()
        return layer(x)

    with torch.no_grad(), pytest.raises(RuntimeError, match=r"'half' begins at .*test_super_kernels.py:\d+ in fn, and"):
        compile_ex(fn)(torch.randn(4, 16))


@pytest.mark.feature("2.11", "11.09")
def test_a_custom_pass_that_drops_a_mark_is_blamed():
    def drop(gm, example_inputs, config):
        for node in list(gm.graph.nodes):
            if "scope_end" in str(node.target):
                gm.graph.erase_node(node)

    def insert(gm, example_inputs, config):
        with gm.graph.inserting_before(next(iter(gm.graph.find_nodes(op="output")))):
            gm.graph.call_function(torch.ops.npugraph_ex.super_kernel_scope_end.default, ("other",))

    def leave_a_stream(gm, example_inputs, config):
        with gm.graph.inserting_before(next(iter(gm.graph.find_nodes(op="output")))):
            gm.graph.call_function(torch.ops.npugraph_ex.scope_exit.default)

    for name, pass_, words in (
        ("post_grad_custom_pre_pass", drop, "'block' begins"),
        ("post_grad_custom_post_pass", insert, "'other' ends"),
        ("post_grad_custom_post_pass", leave_a_stream, "a stream or core limit scope ends"),
    ):
        with torch.no_grad(), pytest.raises(RuntimeError, match=rf"{words}.*does not.* after the custom pass {name}"):
            compile_ex(block, options={name: pass_})(torch.randn(4, 16))


def test_what_a_scope_takes():
    with pytest.raises(RuntimeError, match=r"super_kernel takes a str or None as scope, got 3 \(int\)"):
        super_kernel(3)
    for name in ("", "   ", "\t\n"):
        with pytest.raises(RuntimeError, match="takes a scope with a name, or None for what is to stay out, got '"):
            super_kernel(name)
    with pytest.raises(
        RuntimeError, match=r"takes options strict-scope-check=bypass or .*, got 'dcci-before-kernel-start'"
    ):
        super_kernel("a", "dcci-before-kernel-start")
    with super_kernel("a"):  # a scope is allowed in eager mode
        layer(torch.randn(4, 16))
