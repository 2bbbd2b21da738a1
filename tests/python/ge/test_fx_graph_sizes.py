# SPDX-License-Identifier: Apache-2.0
"""FX graphs with sizes and numbers that only a run knows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from npugraph.ge import proto
from npugraph.ge.backend.npu_backend import get_npu_backend
from npugraph.ge.config import CompilerConfig
from npugraph.ge.converters import MissingConverters
from npugraph.ge.fx.outputs import Computed
from tests.python.ge.converted import built, converted, formula, random_tensor, run, traced
from tests.python.ge.test_fx_graph import op_named, texts

aten = torch.ops.aten
ROWS, COLUMNS = "Gather(Shape(x, dtype=9), 0)", "Gather(Shape(x, dtype=9), 1)"


def t(*size: int) -> torch.Tensor:
    return random_tensor(*size)


CASES: list[tuple[Callable[..., Any], list[torch.Tensor], str]] = [
    (lambda x: x.view(-1, 3, 2), [t(4, 6)], "Reshape(x, [-1, 3, 2])"),
    (lambda x: x.view(x.shape[0] * 2, -1), [t(4, 6)], f"Reshape(x, Pack([Mul({ROWS}, 2), -1]))"),
    (lambda x: x.new_zeros(x.shape[1], 3), [t(4, 6)], f"Fill(Pack([{COLUMNS}, 3]), 0.0)"),
    (lambda x: torch.full_like(x, 2), [t(4, 6)], "Fill(Shape(x, dtype=9), 2.0)"),
    (lambda x: x * x.shape[0], [t(4, 6)], f"Mul(x, Cast({ROWS}, FLOAT))"),
    (lambda x: x[: x.shape[1] - 1], [t(4, 6)], f"StridedSliceV2(x, [0], Pack([Sub({COLUMNS}, 1)]), [0], [1])"),
    (
        lambda x: x[-x.shape[1] :],
        [t(7, 6)],
        f"StridedSliceV2(x, Pack([Add({ROWS}, Neg({COLUMNS}))]), [9223372036854775807], [0], [1], end_mask=1)",
    ),
    (lambda x: torch.arange(x.shape[0]), [t(4, 6)], f"Range(0, {ROWS}, 1)"),
    (lambda x: torch.arange(x.shape[0], dtype=torch.float32), [t(4, 6)], f"Cast(Range(0, {ROWS}, 1), FLOAT)"),
    (
        lambda x: x.split([x.shape[0] - 1, 1])[0],
        [t(4, 6)],
        f"SplitV(x, Pack([Sub({ROWS}, 1), 1]), 0:INT32, num_split=2)[0]",
    ),
    (
        lambda x: torch.nn.functional.pad(x, (1, x.shape[0])),
        [t(4, 6)],
        f"PadV3(x, Pack([0, 0, 1, {ROWS}]), 0.0)",
    ),
    (lambda x: x.flatten().shape[0] * x, [t(4, 6)], f"Mul(x, Cast(Mul({ROWS}, {COLUMNS}), FLOAT))"),
]


@pytest.mark.parametrize(("function", "inputs", "expected"), CASES, ids=[text for *_, text in CASES])
def test_sizes_come_from_inputs(function: Callable[..., Any], inputs: list[torch.Tensor], expected: str) -> None:
    assert converted(function, *inputs, dynamic=True) == expected


def test_inputs_say_how_their_sizes_hang_together() -> None:
    made = built(traced(lambda x, y: torch.cat([x, y.t()]), t(4, 6), t(6, 3), dynamic=True))
    rows, columns = texts(op_named(made, "x").output_desc[0].attr["_npugraph_sizes"])
    assert list(op_named(made, "x").output_desc[0].shape.dim) == [-1, -1]
    assert texts(op_named(made, "y").output_desc[0].attr["_npugraph_sizes"])[0] == columns != rows
    ranges = made.graph.attr["_npugraph_ranges"].list
    assert {rows, columns} <= {name.decode() for name in ranges.s}
    assert len(ranges.i) == 2 * len(ranges.s) and list(ranges.i)[::2] == [2] * len(ranges.s)


def test_one_graph_serves_all_sizes() -> None:
    made = built(traced(lambda x: (x.view(x.shape[0] * 2, -1).sum(-1), x.shape[0] * 3), t(4, 6), dynamic=True))
    assert isinstance(made.outputs.entries[1], Computed)
    for rows in (4, 5, 9):
        x = t(rows, 6)
        sums, number = run(made, [x])
        torch.testing.assert_close(sums, x.view(rows * 2, -1).sum(-1))
        assert number == 3 * rows


def graph_with_number(use: Callable[[fx.Graph, fx.Node, fx.Node], Any], *, is_size: bool) -> fx.GraphModule:
    """A graph of an integer n and a tensor x, in which ``use`` adds the result. If it ``is_size``, n is the first size
    of x."""
    nodes = traced(lambda x, y: x, t(5, 2), t(7, 3), dynamic=True).graph.find_nodes(op="placeholder")
    x_value, y_value = (node.meta["val"] for node in nodes)
    graph = fx.Graph()
    n, x = graph.placeholder("n"), graph.placeholder("x")
    n.meta["val"], x.meta["val"] = (x_value if is_size else y_value).shape[0], x_value
    graph.output((use(graph, x, n),))
    with x_value.fake_mode:
        for node in graph.nodes:
            if node.op == "call_function":
                node.meta["val"] = node.target(*fx.map_arg(node.args, lambda arg: arg.meta["val"]))
    return fx.GraphModule(torch.nn.Module(), graph)


def test_an_integer_that_no_tensor_has_as_a_size_is_an_input() -> None:
    def use(graph: fx.Graph, x: fx.Node, n: fx.Node) -> fx.Node:
        return graph.call_function(aten.add.Tensor, (x, n))

    made = built(graph_with_number(use, is_size=False))
    desc = op_named(made, "n").output_desc[0]
    assert made.fed == (0, 1)
    assert (desc.dtype, list(desc.shape.dim), desc.device_type) == (proto.DT_INT64, [], "CPU")
    assert op_named(made, "n").attr["_npugraph_value"].s.startswith(b"s")
    assert formula(made.graph) == "Add(x, Cast(n, FLOAT))"


@pytest.mark.feature("6.28")
def test_an_integer_that_a_tensor_has_as_a_size_is_read_there() -> None:
    def use(graph: fx.Graph, x: fx.Node, n: fx.Node) -> fx.Node:
        return graph.call_function(aten.add.Tensor, (x, n))

    made = built(graph_with_number(use, is_size=True))
    assert made.fed == (1,)
    assert formula(made.graph) == f"Add(x, Cast({ROWS}, FLOAT))"


def test_numbers_that_nobody_reads_need_no_converter() -> None:
    def use(graph: fx.Graph, x: fx.Node, n: fx.Node) -> fx.Node:
        graph.call_function(lambda number: number * 2, (n,))
        return graph.call_function(aten.neg.default, (x,))

    assert formula(built(graph_with_number(use, is_size=True)).graph) == "Neg(x)"


def test_missing_functions_of_numbers_are_named() -> None:
    def twice(number: Any) -> Any:
        return number * 2

    def use(graph: fx.Graph, x: fx.Node, n: fx.Node) -> fx.Node:
        return graph.call_function(aten.add.Tensor, (x, graph.call_function(twice, (n,))))

    with pytest.raises(MissingConverters, match=r"test_fx_graph_sizes\.twice ge_converter is not implemented"):
        built(graph_with_number(use, is_size=True))


def test_sizes_do_not_follow_from_elements() -> None:
    def count(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        number = n.item()
        torch._check(number >= 2)
        return x.new_zeros(number)

    gm = traced(count, t(4, 6), torch.tensor(3), dynamic=True)
    with pytest.raises(MissingConverters, match="a size follows from the elements of a tensor"):
        built(gm)


def test_floats_that_are_read_from_tensors() -> None:
    """Where an operator takes a tensor, the float is read in each call; where it takes a number, it is assumed."""

    def scaled(x: torch.Tensor, f: torch.Tensor) -> Any:
        return x * f.item()

    gm = traced(scaled, t(4, 6), torch.tensor(0.1, dtype=torch.float64), dynamic=True)
    made = built(gm)
    assert formula(made.graph) == "Mul(x, Cast(Identity(f), FLOAT))"


SIZES: dict[str, Callable[..., Any]] = {
    "equal by a guard": lambda x: (x + 1).view(x.size(0), x.size(1), 2, 4),
    "first half": lambda x: x[: x.shape[0] // 2] * 2,
    "returned floor": lambda x: (x * 2, math.floor(x.shape[0] + 1.0)),
    "returned numbers": lambda x: (x * 2, math.ceil(x.shape[0] / 2), math.sqrt(x.shape[0]), x.shape[0] ** x.shape[1]),
    "power of a number": lambda x: x * (2 ** x.shape[0]) + x.new_zeros(2 ** x.shape[1], 1, 1).sum(),
    "power of sizes": lambda x: x.sum() * (x.shape[0] ** x.shape[1]),
    "power of sizes for each element": lambda x: x * (x.shape[0] ** x.shape[1]),
    "strides": lambda x: x[:, 1:] * 2,
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_follow_from_a_call(name: str) -> None:
    fn = SIZES[name]
    config = CompilerConfig()
    config.debug.missing_converters = "error"
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=get_npu_backend(config), dynamic=True, fullgraph=True)
    with torch.no_grad():
        for x in (torch.randn(3, 5, 8), torch.randn(6, 4, 8)):
            torch.testing.assert_close(compiled(x), fn(x), check_stride=True)


HALVES: dict[str, Callable[..., Any]] = {
    "halves": lambda x: x[: x.shape[0] // 2] * x[x.shape[0] // 2 :],
    "columns": lambda x: x[:, : x.shape[1] // 2] + x[:, x.shape[1] // 2 :] * x.shape[1],
    "quarters": lambda x: x[: x.shape[0] // 2].view(2, -1, x.shape[1]) + x[x.shape[0] // 2 :].view(2, -1, x.shape[1]),
}


@pytest.mark.parametrize("name", HALVES)
def test_parts_of_a_size_that_are_equal(name: str) -> None:
    fn = HALVES[name]
    config = CompilerConfig()
    config.debug.missing_converters = "error"
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=get_npu_backend(config), dynamic=True, fullgraph=True)
    with torch.no_grad():
        for sizes in ((4, 6), (8, 10), (12, 2)):
            x = torch.randn(sizes)
            torch.testing.assert_close(compiled(x), fn(x), check_stride=True)
        with pytest.raises(Exception, match="size"):
            compiled(torch.randn(3, 3))
        torch.testing.assert_close(compiled(torch.ones(4, 4)), fn(torch.ones(4, 4)))


@pytest.mark.parametrize("sizes", [[(2, 5)], [(2, 5), (3, 7)], [(4, 6, 7), (2, 3, 9)]])
def test_inputs_with_sizes_in_their_strides(sizes: list[tuple[int, ...]]) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * 2 + y).sum(0)

    config = CompilerConfig()
    config.debug.missing_converters = "error"
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend=get_npu_backend(config), dynamic=True, fullgraph=True)
    with torch.no_grad():
        for one in sizes:
            x, y = torch.randn(one)[..., 1:], torch.randn(one)[..., :-1]
            torch.testing.assert_close(compiled(x, y), fn(x, y), check_stride=True)
