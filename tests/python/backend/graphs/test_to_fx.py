# SPDX-License-Identifier: Apache-2.0
"""Every stage of a graph can be read and run as FX."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo.config as dynamo_config
from torch import fx
from torch.testing._internal.two_tensor import TwoTensor

import npugraph
from tests.python.backend.checks import assert_same, compile_ex


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def check_stages(fn, *calls, **arguments) -> None:
    """Checks that every stage of the only graph of `fn` computes from the same inputs what the compiled graph does."""
    compiled = compile_ex(fn, **arguments)
    for make in calls:
        compiled(*make())
    (artifact,) = npugraph.artifacts()
    run = artifact._core.callable(boxed=True)
    seen: list[list] = []
    for make in calls:
        torch.manual_seed(0)
        given = make()
        numbers = [n for t in given if isinstance(t, torch.Tensor) for n in t.shape]
        arguments = _arguments(artifact, given, numbers)
        if arguments is not None:
            seen.append(arguments)
    assert seen
    for arguments in seen:
        torch.manual_seed(1)
        own = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
        want = run(list(own))
        for stage in artifact.stages[:-2]:
            module = artifact.to_fx(stage)
            assert isinstance(module, fx.GraphModule)
            torch.manual_seed(1)
            other = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
            assert_same(list(module(*other)), list(want), exact=False)
            assert_same(other, own, exact=False)
    assert module.code


def _arguments(artifact, given, numbers):
    """Returns an argument for each placeholder: the tensors in the order of the call, and between them the numbers that
    placeholders without a tensor take, which are sizes of the tensors."""
    names = [node.name for node in artifact.to_fx("import").graph.nodes if node.op == "placeholder"]
    symbols = {}
    arguments, tensors = [], iter(t for t in given)
    for name, (value, _, _) in zip(names, artifact._core.graph("import").inputs(), strict=True):
        arguments.append(next(tensors) if value is not None else symbols.setdefault(name, numbers[len(symbols)]))
    return arguments


def test_pointwise_products_and_views() -> None:
    def fn(x, w):
        h = torch.softmax((x @ w).view(2, -1), -1)
        return h.t(), h.sum(0), torch.cat([x, x * 2], 1)[:, 1:], torch.split(x, 2)

    check_stages(fn, lambda: (torch.randn(4, 4), torch.randn(4, 4)))


def test_writes_and_constants() -> None:
    def fn(x, y):
        x[1:].mul_(2)
        y.copy_(x)
        return x + torch.tensor([1.0, 2, 3]), y.new_full((2,), 3, dtype=torch.int64)

    check_stages(fn, lambda: (torch.randn(3), torch.randn(3)))


def test_symbolic_sizes() -> None:
    def fn(x):
        n = x.shape[0]
        return x.new_ones(n // 2 + 1, max(n, 3)) * n, torch.arange(n) % 3, x.reshape(-1)[: n * 2 - 1], n * 3

    check_stages(fn, lambda: (torch.randn(5, 2),), lambda: (torch.randn(8, 2),), dynamic=True)


def test_random_numbers() -> None:
    check_stages(lambda x: (torch.rand_like(x) + x, torch.nn.functional.dropout(x, 0.5)), lambda: (torch.randn(3),))


@pytest.mark.filterwarnings("ignore::npugraph.NpugraphWarning")
def test_python_nodes() -> None:
    def fn(x):
        return torch.cond((x.sum() > 0).float(), lambda t: t.sin() * 2, lambda t: t.cos(), (x,)) + 1

    check_stages(fn, lambda: (torch.ones(3),), lambda: (-torch.ones(3),))


@pytest.mark.filterwarnings("ignore::npugraph.NpugraphWarning")
def test_python_nodes_with_sizes() -> None:
    def fn(x):
        return torch.cond((x.sum() > 0).float(), lambda t: t * 2, lambda t: t * 3, (x,)).new_ones(x.shape[0]) * x

    check_stages(fn, lambda: (torch.ones(3),), lambda: (-torch.ones(5),), dynamic=True)


def test_sizes_from_contents() -> None:
    def fn(x):
        found = x.nonzero()
        return found * 2, x.new_ones(found.shape[0] + 1)

    with dynamo_config.patch(capture_dynamic_output_shape_ops=True):
        check_stages(fn, lambda: (torch.tensor([0.0, 1, 2]),))


def test_an_unknown_stage() -> None:
    compile_ex(lambda x: x + 1)(torch.ones(3))
    with pytest.raises(ValueError, match="unknown stage"):
        npugraph.artifacts()[0].to_fx("nope")


def test_rounded_sizes() -> None:
    check_stages(lambda x: x.new_zeros(round(x.shape[0] * 1.5)) + 1, lambda: (torch.randn(5),), dynamic=True)


def test_a_size_that_is_several_inputs() -> None:
    """This happens with tensor subclasses: their sizes are inputs, and so are the sizes of their parts."""
    x = TwoTensor(torch.randn(4, 4), torch.randn(4, 4))
    compile_ex(lambda x: x.t().sin() + x, dynamic=True)(x)
    (artifact,) = npugraph.artifacts()
    module = artifact.to_fx()
    names = [node.target for node in module.graph.find_nodes(op="placeholder")]
    assert len(set(names)) == len(names) > 2
    arguments = iter([x.a, x.b])
    results = module(
        *(4 if value is None else next(arguments) for value, _, _ in artifact._core.graph("import").inputs())
    )
    assert_same(
        [r for r in results if isinstance(r, torch.Tensor)], [x.a.t().sin() + x.a, x.b.t().sin() + x.b], exact=False
    )


def test_numbers_that_share_a_symbol() -> None:
    compile_ex(lambda x, a, b: x * a + b if a == b else x, dynamic=True)(torch.ones(3), 7, 7)
    made = npugraph.artifacts()[-1].to_fx("import")
    names = [node.name for node in made.graph.find_nodes(op="placeholder")]
    assert len(set(names)) == len(names) == 4
