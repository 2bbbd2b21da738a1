# SPDX-License-Identifier: Apache-2.0
"""Gears: the sizes that dimensions of inputs may have, each with a plan of its own in one compiled graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters

import npugraph
import torchair
from npugraph.counters import forget
from npugraph.ge.gears import combinations
from torchair.inference import cache_compile, set_dim_gears

ROWS = (1, 32, 128)


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    forget()
    with torch.no_grad():
        yield
    forget()


def geared(*sizes: int, **gears: Any) -> torch.Tensor:
    """Returns a tensor of these sizes. ``d0`` are the gears of dimension 0, and so on."""
    x = torch.randn(*sizes)
    set_dim_gears(x, {int(name[1:]): list(of_dim) for name, of_dim in gears.items()})
    return x


def compiled(fn: Callable[..., Any], policy: str = "zip", **how: Any) -> Callable[..., Any]:
    torch._dynamo.reset()
    config = torchair.CompilerConfig()
    config.inference_config.dynamic_gears_merge_policy = policy
    how = {"dynamic": True, "fullgraph": True} | how
    return torch.compile(fn, backend=torchair.get_npu_backend(compiler_config=config), **how)


def attention(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    q, k, v = (x @ w).reshape(x.shape[0], -1, 3, 4).unbind(2)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v).sum(1) + x.shape[0]


def plans() -> list[dict[str, int]]:
    """Returns the sizes of each plan of the only graph, in the order of their first calls."""
    (artifact,) = npugraph.artifacts()
    return [instance.symbols for instance in reversed(artifact.instances)]


@pytest.mark.feature("5.11", "5.13", "6.44")
@pytest.mark.parametrize("order", [ROWS, (128, 1, 32)])
def test_one_compile_and_a_plan_for_each_gear(order) -> None:
    w = torch.randn(8, 24)
    fast = compiled(attention)
    for turn in range(2):
        for rows in order:
            x = geared(rows, 8, d0=ROWS) if turn == 0 and rows == order[0] else torch.randn(rows, 8)
            torch.testing.assert_close(fast(x, w), attention(x, w))
    assert counters["npugraph_ex"]["compiles"] == 1
    assert len(plans()) == 3
    assert [set(ROWS) & set(symbols.values()) for symbols in plans()] == [{rows} for rows in order]
    assert [instance.replays for instance in npugraph.artifacts()[0].instances] == [2, 2, 2]


@pytest.mark.feature("5.12", "6.26")
@pytest.mark.parametrize("policy", ["zip", "product"])
def test_gears_of_several_dimensions(policy) -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ y, -1)

    fast = compiled(model, policy)
    gears = {"zip": [(2, 5), (4, 7)], "product": [(2, 5), (2, 7), (4, 5), (4, 7)]}[policy]
    for index, (rows, columns) in enumerate(gears):
        x, y = torch.randn(rows, 3), torch.randn(3, columns)
        if index == 0:
            x, y = geared(rows, 3, d0=(2, 4)), geared(3, columns, d1=(5, 7))
        torch.testing.assert_close(fast(x, y), model(x, y))
    assert counters["npugraph_ex"]["compiles"] == 1
    assert len(plans()) == len(gears)
    if policy == "zip":
        given = r"size 0 of L\['x'\] is 4, size 1 of L\['y'\] is 5"
        gears_text = r"the combinations of their gears are \(2, 5\), \(4, 7\)"
        with pytest.raises(AssertionError, match=f"{given}, and {gears_text}"):
            fast(torch.randn(4, 3), torch.randn(3, 5))


@pytest.mark.feature("5.12")
def test_combinations() -> None:
    assert combinations([(1, 2), (3, 4)], "zip") == [(1, 3), (2, 4)]
    assert combinations([(1, 2), (3, 4)], "product") == [(1, 3), (1, 4), (2, 3), (2, 4)]
    assert combinations([(1, 1, 2), (3, 3, 4)], "zip") == [(1, 3), (2, 4)]
    assert len(combinations([tuple(range(1, 11)), tuple(range(1, 11)), (5, 5)], "product")) == 100
    with pytest.raises(ValueError, match=r"dimensions have 2, 3 gears; with .* 'zip' each has as many"):
        combinations([(1, 2), (3, 4, 5)], "zip")
    with pytest.raises(ValueError, match=r"gears of 2 dimensions have more than 100 combinations with .* 'product'"):
        combinations([tuple(range(1, 12)), tuple(range(1, 11))], "product")


@pytest.mark.feature("5.11", "11.16")
@pytest.mark.parametrize("kind", [AssertionError, ValueError])
def test_gears_that_are_refused(kind) -> None:
    x = torch.randn(2, 3)
    for message, t, gears in (
        ("takes a tensor, got 3", 3, {0: [2, 4]}),
        ("takes a dict of dimensions and their gears, got \\[2, 4\\]", x, [2, 4]),
        ("takes a dict of dimensions and their gears, got {}", x, {}),
        ("a dimension of a tensor with 2 of them is an int from 0 on, got '0'", x, {"0": [2, 4]}),
        ("is an int from 0 on, got 2", x, {2: [2, 4]}),
        ("is an int from 0 on, got -1", x, {-1: [2, 4]}),
        ("is an int from 0 on, got True", x, {True: [2, 4]}),
        ("gears are a list or a tuple of ints, got {2, 4} for dimension 0", x, {0: {2, 4}}),
        ("gears are a list or a tuple of ints, got \\[2, 4.0\\]", x, {0: [2, 4.0]}),
        ("a dimension has 2 to 100 gears, got 1 for dimension 1", x, {0: [2, 4], 1: [3]}),
        ("a dimension has 2 to 100 gears, got 101", x, {0: list(range(1, 102))}),
        ("gears are sizes of 1 or more, got 0", x, {0: [0, 2]}),
    ):
        with pytest.raises(kind, match=message):
            set_dim_gears(t, gears)
    set_dim_gears(x, {0: [2, 4]})
    set_dim_gears(x, {0: (2, 4)})
    with pytest.raises(kind, match=r"the tensor has the gears {0: \(2, 4\)} already, which hold for its life"):
        set_dim_gears(x, {0: [2, 8]})


@pytest.mark.feature("5.11", "11.16")
@pytest.mark.parametrize("kind", [AssertionError, ValueError])
def test_compiles_and_calls_that_are_refused(kind) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x.sum(0) * x.shape[0]

    with pytest.raises(kind, match=r"gears need torch.compile\(..., dynamic=True\)"):
        compiled(model, dynamic=None)(geared(2, 3, d0=(2, 4)))
    with pytest.raises(kind, match=r"gears need torch.compile\(..., fullgraph=True\)"):
        compiled(model, fullgraph=False)(geared(2, 3, d0=(2, 4)))
    text = r"size 0 of L\['x'\] is 3, and its gears are 2, 4"
    with pytest.raises(kind, match=text):
        compiled(model)(geared(3, 3, d0=(2, 4)))
    fast = compiled(model)
    fast(geared(2, 3, d0=(2, 4)))
    with pytest.raises(kind, match=text):
        fast(torch.randn(3, 3))
    with pytest.raises(kind, match=r"size 0 of L\['x'\] has gears, and the program takes no other size than 2"):
        compiled(lambda x: x.sum(0) * (2 if x.shape[0] == 2 else 3))(geared(2, 3, d0=(2, 4)))
    with pytest.raises(kind, match="dimensions have 2, 3 gears"):
        compiled(model)(geared(2, 3, d0=(2, 4), d1=(3, 5, 7)))
    with pytest.raises(kind, match=r"size 0 of L\['y'\] has the gears \(2, 8\), and it is also size 0 of L\['x'\]"):
        compiled(lambda x, y: x + y)(geared(2, 3, d0=(2, 4)), geared(2, 3, d0=(2, 8)))


@pytest.mark.feature("5.13", "6.44")
def test_what_the_engine_is_told(graphs: list[Any]) -> None:
    compiled(lambda x, y: x @ y, "product")(geared(32, 3, d0=ROWS), geared(3, 2, d1=(2, 4)))
    options = graphs[-1].graph.executor.options
    assert re.fullmatch(r"\w+:-1,-1;\w+:-1,-1", options["ge.inputShape"])
    assert options["ge.dynamicDims"] == "1,2;1,4;32,2;32,4;128,2;128,4"
    assert options["ge.dynamicNodeType"] == "1"


def test_more_plans_than_graphs_keep_otherwise() -> None:
    rows = range(2, 102)
    fast = compiled(lambda x: x * 2)
    for index, size in enumerate([*rows, 2]):
        fast(geared(size, 200, d0=rows) if index == 0 else torch.randn(size, 200))
    assert len(plans()) == 100


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1) + x.shape[0]


@pytest.mark.feature("5.02", "5.13")
def test_a_cached_graph_keeps_its_gears(tmp_path: Path) -> None:
    for expected in ((1, 0), (0, 1)):
        npugraph.reset()
        function = cache_compile(Model().forward, cache_dir=tmp_path)
        for rows in ROWS:
            x = geared(rows, 8, d0=ROWS)
            torch.testing.assert_close(function(x), Model()(x))
        counts = counters["npugraph_ex"]
        assert (counts["compiles"], counts["inference_cache_hits"]) == expected
    with (
        pytest.raises(AssertionError, match=r"size 0 of L\['x'\] is 7, and its gears are 1, 32, 128"),
        pytest.warns(UserWarning, match="compiled again"),
    ):
        function(geared(7, 8, d0=ROWS))
