# SPDX-License-Identifier: Apache-2.0
"""Operators that write arguments, in compiled graphs: they write and return what eager calls do, in place."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import torch
import torch_npu
from torch.utils import _pytree as pytree
from torch_npu._operators import overload

import npugraph
from npugraph import _ascend as device
from tests.python.backend.checks import compile_ex
from tests.python.device.captured_calls import check_captured
from tests.python.device.npu_operators import on, tensors
from tests.python.device.writing_calls import CALLS, CONTEXT, DECODE, SIZES, TABLE, zeros

FORMS = {row.name: row.graph_form for row in device.operators() if row.graph_form}
ON_NPU_ALONE = ("npu::copy_memory_", "npu::npu_format_cast_", "npu::npu_format_cast_.acl_format")


def writes(schema: Any) -> bool:
    return schema.is_mutable or (schema.overload_name == "out" and "out" in {a.name for a in schema.arguments})


def test_each_operator_that_writes_is_called_here():
    rows = {row.name: row.computation for row in device.operators() if row.computation != device.Computation.SIZES}
    named = {name for name in rows if writes(overload(name)._schema)}
    composite = [name for name, computation in rows.items() if computation == device.Computation.COMPOSITE]
    assert named - set(CALLS) == set()
    assert set(CALLS) - named <= set(composite)


def twice(value: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda x: x * 2, value)


def call_and_read(name: str, args: Any, kwargs: Any) -> Any:
    """Returns the results of an operator and its arguments after the call, each of them read by another operator."""
    returned = overload(name)(*args, **kwargs)
    # Only the size of a workspace is defined.
    returned = returned.shape if name.endswith("_get_workspace") else twice(returned)
    return returned, twice(tensors((args, kwargs)))


def check(names: Sequence[str], place: str, backend: str = "npugraph_ex") -> None:
    def fn(calls: Any) -> Any:
        return [call_and_read(name, *call) for name, call in zip(names, calls, strict=True)]

    torch._dynamo.reset()
    given, expected = (on(place, [CALLS[name] for name in names]) for _ in range(2))
    torch.manual_seed(3)
    want = fn(expected)
    torch.manual_seed(3)
    with torch.no_grad():
        got = torch.compile(fn, backend=backend, fullgraph=True)(given)
    for name, *results in zip(names, got, given, want, expected, strict=True):
        got_here, want_here = tensors(results[:2]), tensors(results[2:])
        for g, w in zip(got_here, want_here, strict=True):
            assert g.device == w.device and g.dtype == w.dtype, name
            torch.testing.assert_close(g.cpu(), w.cpu(), equal_nan=True, msg=lambda text, name=name: f"{name}: {text}")


def some(names: Iterable[str]) -> list[list[str]]:
    """Returns the names in lists of ten, for few graphs, since each graph takes its time."""
    names = list(names)
    return [names[i : i + 10] for i in range(0, len(names), 10)]


@pytest.mark.parametrize("names", some(CALLS), ids=operator.itemgetter(0))
def test_on_npu(names: Sequence[str]) -> None:
    check(names, "npu")


IN_SECOND_FORM = [name for name in FORMS if name in CALLS and name not in ON_NPU_ALONE]


@pytest.mark.parametrize("names", some(IN_SECOND_FORM), ids=operator.itemgetter(0))
def test_on_cpu(names: Sequence[str]) -> None:
    check(names, "cpu")


def test_with_another_backend() -> None:
    check(IN_SECOND_FORM[-10:], "cpu", "aot_eager")


@pytest.mark.parametrize("name", CALLS)
def test_replays_write_and_return_what_eager_calls_do(name: str) -> None:
    repeats = not name.endswith(("_get_workspace", "npu_sim_exponential_"))  # arbitrary bytes, and random numbers
    check_captured(overload(name), on("npu", CALLS[name]), repeats=repeats)


def tasks_of(fn: Any, *args: Any, **options: Any) -> list[str]:
    """Returns the names of the tasks of ``fn``, and checks that it computes and writes what it does in eager mode."""
    given, expected = (on("npu", args) for _ in range(2))
    torch._dynamo.reset()
    with torch.no_grad():
        got, want = compile_ex(fn, **options)(*given), fn(*expected)
    for g, w in zip(tensors((got, given)), tensors((want, expected)), strict=True):
        torch.testing.assert_close(g.cpu(), w.cpu())
    return [task.name for task in npugraph.artifacts()[-1].tasks]


def paged(query: Any, caches: Any, table: Any, out: Any) -> Any:
    return torch.ops.atb._npu_paged_attention_v2.out(
        query, caches[0], table, CONTEXT, value_cache=caches[1], **SIZES, out=out
    )


@pytest.mark.parametrize("dynamic", [False, True])
def test_nothing_is_copied(dynamic: bool) -> None:
    def step(query: Any, key: Any, value: Any, caches: Any, slots: Any, table: Any, out: Any) -> Any:
        torch_npu._npu_reshape_and_cache(key, value, caches[0], caches[1], slots)
        return paged(query, caches, table, out[1]) * 2

    args = (DECODE[0], torch.ones(3, 2, 8), torch.ones(3, 2, 8) * 2, torch.stack(DECODE[1:]))
    args += (torch.tensor([3, 8, 25]), TABLE, torch.zeros(2, 3, 4, 8))
    names = ["atb._npu_reshape_and_cache", "atb._npu_paged_attention_v2_in_graphs.out"]
    *tasks, product = tasks_of(step, *args, dynamic=dynamic)
    assert tasks == names and product in ("kernel.binary_mul", "loop.mul")


def test_a_result_is_the_argument() -> None:
    out = torch.zeros(3, 4, 8).npu()
    caches, table = on("npu", (DECODE[1:], TABLE))
    with torch.no_grad():
        got = compile_ex(paged)(DECODE[0].npu(), caches, table, out)
    assert got.data_ptr() == out.data_ptr() and got.abs().sum() > 0


def test_written_in_the_graph_and_before() -> None:
    """``out`` is written twice, and read in between."""

    def fn(query: Any, caches: Any, table: Any) -> Any:
        out = torch.zeros_like(query)
        first = paged(query, caches, table, out) + 1
        return first + paged(query * 3, caches, table, out), out

    names = tasks_of(fn, *DECODE[:1], DECODE[1:], TABLE)
    assert sum("in_graphs" in name for name in names) == 2 and not any("clone" in name for name in names)


def test_without_a_use_of_the_results() -> None:
    def fn(query: Any, key: Any, value: Any, out: Any) -> Any:
        torch.ops.npu.npu_fused_infer_attention_score.out(query, key, value, num_heads=2, out=out)
        return out[0] + 1

    tasks = tasks_of(fn, *(torch.ones(2, 5, 16) * i for i in (1, 2, 3)), [zeros(2, 5, 16), zeros(0)])
    assert tasks == ["npu.npu_fused_infer_attention_score_in_graphs.out", "kernel.binary_add"]


def test_captured_in_a_graph_of_npu() -> None:
    query, caches, table = on("npu", (DECODE[0], DECODE[1:], TABLE))
    out = torch.zeros_like(query)
    compiled = compile_ex(lambda: paged(query, caches, table, out) * 2)
    with torch.no_grad():
        compiled()
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            result = compiled()
        query.mul_(3)
        graph.replay()
        assert torch.equal(result, paged(query, caches, table, torch.zeros_like(out)) * 2)
