# SPDX-License-Identifier: Apache-2.0
"""Tensors that are not plain memory: complex, quantised, sparse, nested, subclasses."""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing

from npugraph import artifacts
from tests.python.backend.checks import (
    assert_same,
    check,
    check_captured,
    check_partitioned,
    compile_ex,
    task_names,
)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x * x.conj()).real + torch.view_as_real(x).sum(-1),
        lambda x: (x.conj(), (x * 2).conj()),
        lambda x: x.mH @ x + (1 + 2j),
        lambda x: (x.conj().imag + 1, x.conj().resolve_conj().imag.resolve_neg()),
        lambda x: (x.t().conj() * 2j).t(),
        lambda x: torch.fft.fft(x).abs(),
        lambda x: torch.view_as_complex(torch.view_as_real(x) * 2),
        lambda x: x.mul_(1j).conj(),
    ],
)
def test_complex_functions_are_captured_whole(fn) -> None:
    def plain():
        return (torch.randn(3, 3, dtype=torch.complex64),)

    with torch.no_grad():
        check_captured(fn, plain)


def test_conjugated_inputs() -> None:
    def conjugated():
        return (torch.randn(3, 4, dtype=torch.complex64).conj(),)

    with torch.no_grad():
        check_captured(lambda x: (x * 2j, x.real + 1), conjugated)


def test_quantised_values_stay_inside_the_graph() -> None:
    def fn(x):
        return torch.quantize_per_tensor(x * 2, 0.1, 0, torch.quint8).dequantize() + 1

    with torch.no_grad():
        (artifact,) = check_partitioned(
            fn, lambda: (torch.randn(3, 3),), names=["aten.quantize_per_tensor"], task="mul"
        )
    assert "aten.dequantize.self" in [task.name for task in artifact.tasks]


def test_quantised_results_and_arithmetic() -> None:
    def returned(x):
        return torch.quantize_per_tensor(x.sin(), 0.1, 0, torch.qint8)

    def chain(x):
        return torch.quantize_per_tensor(x.sin(), 0.1, 0, torch.quint8).relu().view(9).int_repr() + 1

    with torch.no_grad():
        check_partitioned(returned, lambda: (torch.randn(3, 3),), names=["aten.quantize_per_tensor"], task="sin")
        torch._dynamo.reset()
        first, second = check(chain, lambda: (torch.randn(3, 3),), fullgraph=False)
    assert task_names(first) == ["aten.sin.out", "python.aten_quantize_per_tensor", "aten.relu", "python.aten_view"]
    assert [p.target for p in first.partitions] == ["aten.quantize_per_tensor", "aten.view"]
    assert task_names(second) == ["aten.add.out"]
    assert not second.partitions


def coo() -> torch.Tensor:
    index = torch.tensor([[0, 1], [1, 0]])
    return torch.sparse_coo_tensor(index, torch.randn(2), (3, 3), check_invariants=True).coalesce()


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x * 2).to_sparse(),
        lambda x: ((x * 2).to_sparse() * 2).to_dense() + 1,
    ],
)
def test_values_that_become_sparse(fn) -> None:
    """Dynamo does not take a sparse tensor into a graph, but it takes the operators before it."""
    with torch.no_grad():
        (artifact,) = check(fn, lambda: (torch.randn(3, 3),), fullgraph=False)
    assert task_names(artifact) == ["kernel.binary_mul"]
    assert not artifact.partitions


@pytest.mark.filterwarnings("ignore:Sparse CSR")
@pytest.mark.parametrize("make", [coo, lambda: coo().to_sparse_csr()], ids=["coo", "rows"])
def test_sparse_arguments(make) -> None:
    """Dynamo does not compile a function with a sparse argument, but runs it in eager mode."""

    def fn(s, x):
        return (s @ (x * 2)) + 1

    with torch.no_grad():
        s, x = make(), torch.randn(3, 2)
        assert_same(compile_ex(fn, fullgraph=False)(s, x), fn(s, x))
    assert not artifacts()


def test_nested_tensors() -> None:
    def fn(n):
        return n.sin() * 2

    compiled = compile_ex(fn)
    with torch.no_grad():
        for lengths in ((2, 4), (5, 1), (3, 3, 2)):
            n = torch.nested.nested_tensor([torch.randn(k, 3) for k in lengths], layout=torch.jagged)
            assert_same(compiled(n).values(), fn(n).values(), exact=False)
            assert compiled(n).offsets().equal(n.offsets())
    assert artifacts()


class Pair(torch.Tensor):
    """Two tensors that go through every operator together."""

    @staticmethod
    def __new__(cls, first, second):
        return torch.Tensor._make_wrapper_subclass(cls, first.shape, dtype=first.dtype, strides=first.stride())

    def __init__(self, first, second):
        self.first = first
        self.second = second

    def __repr__(self):
        return f"Pair({self.first!r}, {self.second!r})"

    def __tensor_flatten__(self):
        return ["first", "second"], None

    @staticmethod
    def __tensor_unflatten__(inner, meta, size, stride):
        return Pair(inner["first"], inner["second"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def run(half):
            plain = pytree.tree_map_only(Pair, half, (args, kwargs or {}))
            return func(*plain[0], **plain[1])

        def pair(a, b):
            return Pair(a, b) if isinstance(a, torch.Tensor) else a

        result = pytree.tree_map(pair, run(lambda p: p.first), run(lambda p: p.second))
        return return_and_correct_aliasing(func, args, kwargs or {}, result)


def halves(values):
    leaves = pytree.tree_leaves(values)
    return [half for leaf in leaves for half in ((leaf.first, leaf.second) if isinstance(leaf, Pair) else (leaf,))]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_tensor_subclasses(dynamic, grad) -> None:
    def fn(x, y):
        x.add_(1)
        return (x * y).sin() + x, x.t(), y * 2

    compiled = compile_ex(fn, dynamic=dynamic)
    with torch.set_grad_enabled(grad):
        for n in (3, 4):
            x, y = Pair(torch.randn(n, n), torch.randn(n, n)), torch.randn(n, n)
            own = Pair(x.first.clone(), x.second.clone())
            got, want = compiled(own, y), fn(x, y)
            assert [type(t) for t in got] == [type(t) for t in want]
            assert_same(halves((own, got)), halves((x, want)), exact=False)
    assert artifacts()
