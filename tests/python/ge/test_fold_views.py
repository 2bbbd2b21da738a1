# SPDX-License-Identifier: Apache-2.0
"""Consecutive views are one operator of Ascend IR, with the values and strides of eager mode."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torchair
from torchair import scope

X = torch.arange(24.0).reshape(2, 3, 4)
CHAINS = [
    (lambda x: x.permute(1, 0, 2).transpose(1, 2), ["Transpose"]),
    (lambda x: x.transpose(0, 2).transpose(0, 1).permute(0, 2, 1), ["Transpose"]),
    (lambda x: x.view(6, 4).view(3, 2, 4).view(24), ["Reshape"]),
    (lambda x: x.view(6, 4).t().t(), ["Reshape"]),
    (lambda x: x.view(2, 3, 1, 4).transpose(1, 2).reshape(2, 12), ["Reshape"]),
    (lambda x: x.view(6, 4).t().reshape(2, 12), ["Reshape", "Transpose", "TensorMove", "Reshape"]),
    (lambda x: x.permute(2, 0, 1), ["Transpose"]),
]


@pytest.fixture(autouse=True)
def without_gradients() -> Any:
    with torch.no_grad():
        yield


def types_of(function: Callable[..., Any], graphs: list[Any], *inputs: Any, fold: bool = True, **how: Any) -> list[str]:
    """Compiles and compares with eager mode. Returns the types of the operators between a negation and a relu."""

    def used(*args: Any) -> Any:
        return function(args[0].neg(), *args[1:]).relu()

    config = torchair.CompilerConfig()
    config.debug.missing_converters.value = "error"
    config.experimental_config.enable_view_optimize = fold
    torch._dynamo.reset()
    backend = torchair.get_npu_backend(compiler_config=config)
    found, expected = torch.compile(used, backend=backend, fullgraph=True, **how)(*inputs), used(*inputs)
    assert torch.equal(found, expected) and found.stride() == expected.stride()
    types = [op.type for op in graphs[-1].graph.op if op.type != "Const"]
    return types[types.index("Neg") + 1 : types.index("Relu")]


@pytest.mark.feature("6.30")
@pytest.mark.parametrize(("chain", "types"), CHAINS)
def test_a_chain_is_folded(chain: Callable[..., Any], types: list[str], graphs: list[Any]) -> None:
    assert types_of(chain, graphs, X) == types


@pytest.mark.feature("6.30")
def test_views_stay_apart_if_the_option_is_off(graphs: list[Any]) -> None:
    assert types_of(CHAINS[1][0], graphs, X, fold=False) == ["Transpose"] * 3


@pytest.mark.feature("6.30")
def test_sizes_may_be_symbols(graphs: list[Any]) -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, 4).view(x.shape[1], x.shape[0], 4).transpose(0, 1).transpose(1, 2)

    types = types_of(chain, graphs, X, dynamic=True)
    assert (types.count("Reshape"), types.count("Transpose")) == (1, 1)


@pytest.mark.feature("6.30")
def test_a_view_that_others_read_stays(graphs: list[Any]) -> None:
    def both(x: torch.Tensor) -> torch.Tensor:
        y = x.view(6, 4)
        return y.view(4, 6).abs() + y.abs().view(4, 6)

    types = types_of(both, graphs, X)
    assert types.count("Reshape") == 3


@pytest.mark.feature("4.14", "6.30")
@pytest.mark.parametrize(
    ("make", "is_folded"),
    [
        (lambda: scope.super_kernel("block"), True),
        (lambda: scope.npu_stream_switch("side"), False),
        (lambda: scope.limit_core_num(1, 1), False),
        (lambda: scope.op_never_timeout(), False),
        (lambda: scope.data_dump(), False),
    ],
)
def test_scopes_keep_views_apart(make: Callable[[], Any], is_folded: bool, graphs: list[Any]) -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        with make():
            x = x.transpose(0, 2).transpose(0, 1)
        return x

    assert types_of(chain, graphs, X) == ["Transpose"] * (1 if is_folded else 2)


@st.composite
def chains(draw: Any) -> tuple[list[int], list[tuple[str, list[int]]]]:
    """Sizes, and views by name, each with its arguments."""
    sizes = draw(st.lists(st.sampled_from([1, 2, 3]), min_size=2, max_size=4))
    shape, calls = list(sizes), []
    for _ in range(draw(st.integers(2, 5))):
        kind = draw(st.sampled_from(["permute", "transpose", "reshape"]))
        if kind == "permute":
            order = draw(st.permutations(range(len(shape))))
            calls.append((kind, list(order)))
            shape = [shape[dim] for dim in order]
        elif kind == "transpose":
            a, b = (draw(st.integers(-len(shape), len(shape) - 1)) for _ in range(2))
            calls.append((kind, [a, b]))
            shape[a], shape[b] = shape[b], shape[a]
        else:
            place = draw(st.integers(0, len(shape) - 2)) if len(shape) > 2 else 0
            merged = [*shape[:place], shape[place] * shape[place + 1], *shape[place + 2 :]]
            shape = [*merged, 1] if len(merged) < 2 else merged
            calls.append((kind, list(shape)))
    return sizes, calls


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(chain=chains())
def test_drawn_chains_have_the_values_of_eager_mode(chain: tuple[list[int], list[tuple[str, list[int]]]]) -> None:
    from npugraph.ge.fx.fold_views import fold_views
    from tests.python.ge.converted import traced

    sizes, calls = chain

    def views(x: torch.Tensor) -> torch.Tensor:
        for name, arguments in calls:
            x = getattr(x, name)(*arguments)
        return x.neg()

    x = torch.randn(sizes)
    gm = traced(views, x)
    fold_views(gm.graph)
    gm.graph.lint()
    gm.recompile()
    assert torch.equal(gm(x), views(x))
    targets = [node.target for node in gm.graph.nodes if node.op == "call_function"]
    transposes = [target is torch.ops.aten.permute.default for target in targets]
    assert not any(a and b for a, b in itertools.pairwise(transposes))
