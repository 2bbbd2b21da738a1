# SPDX-License-Identifier: Apache-2.0
"""Control flow compiled on npu and inside of captured graphs. torch itself refuses flex_attention of npu tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import npugraph
from tests.python.backend.checks import assert_same, compile_ex, compiled_artifacts
from tests.python.backend.graphs.flow_programs import PROGRAMS
from tests.python.device.captures import captured, numbers


def branches(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 5, lambda t: t * 2, lambda t: t - 1, (x,)) + 1


def loop(x: torch.Tensor) -> torch.Tensor:
    start = torch.zeros((), dtype=torch.int64)
    _, last = while_loop(lambda i, t: t.sum() < 50, lambda i, t: (i + 1, t * 2), (start, x))
    return last + 1


def scanned(x: torch.Tensor) -> torch.Tensor:
    last, sums = scan(lambda carry, row: (carry + row, carry * 1), x[0] * 0, x)
    return sums + last


def mapped(x: torch.Tensor) -> torch.Tensor:
    return map_over(lambda row: row * 2 + row.sum(), x) + 1


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "cond": branches,
    "while_loop": loop,
    "scan": scanned,
    "map": mapped,
}


@pytest.fixture(autouse=True)
def nothing_in_python(recwarn: pytest.WarningsRecorder) -> Iterator[None]:
    npugraph.reset()
    with torch.no_grad():
        yield
    assert not [w for w in recwarn if issubclass(w.category, npugraph.NpugraphWarning)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_control_flow_on_npu(name: str) -> None:
    fn, x = FUNCTIONS[name], numbers(4, 8)
    compiled = compile_ex(fn)
    for factor in (1, -1, 0.1, 3):
        if name == "while_loop" and factor < 0:
            continue
        got = compiled(x * factor)
        assert got.device == x.device
        torch.testing.assert_close(got.cpu(), fn(x.cpu() * factor))
    (artifact, *_) = (made for made in npugraph.artifacts() if not made.name.endswith("body"))
    assert not any(task.kind == "python" for task in artifact.tasks)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_control_flow_in_captured_graphs(name: str) -> None:
    fn, x = FUNCTIONS[name], numbers(4, 8)
    compiled = compile_ex(fn)
    compiled(x)
    graph, y = captured(lambda: compiled(x))
    for factor in (1, 3, 0.5):
        x.copy_(numbers(4, 8) * factor)
        graph.replay()
        torch.testing.assert_close(y.cpu(), fn(x.cpu()))


def check_writes(name: str) -> None:
    fn = PROGRAMS[name]
    compiled = compile_ex(fn)
    for sign in (1, -1):
        own = [torch.full((4,), float(sign)).npu(), torch.arange(1.0, 5).npu()]
        given = [x.clone() for x in own]
        results = []
        for run, arguments in ((compiled, own), (fn, given)):
            torch.npu.manual_seed(0)
            results.append(run(*arguments))
        assert_same(*results)
        assert_same(own, given)
    assert not any(task.kind == "python" for artifact in compiled_artifacts() for task in artifact.tasks)


@pytest.mark.parametrize("name", ["part_of_input", "first_value_is_written", "branch_in_loop"])
def test_writes_of_control_flow_on_npu(name: str) -> None:
    check_writes(name)


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_writes_of_control_flow_on_npu(name: str) -> None:
    check_writes(name)
