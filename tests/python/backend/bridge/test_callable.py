# SPDX-License-Identifier: Apache-2.0
"""npugraph._C.Callable: boxed calls, checks of inputs, results without copies, exceptions."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from npugraph import _C, artifacts, reset
from npugraph.backend import npugraph_ex


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    reset()
    with torch.no_grad():
        yield
    reset()


def compiled(fn: Callable[..., Any], *args: Any, dynamic: bool | None = False) -> Any:
    """Returns the Callable of `fn`, compiled for `args` and called once."""
    torch.compile(fn, backend=npugraph_ex, fullgraph=True, dynamic=dynamic)(*args)
    return artifacts()[-1]._core.callable(boxed=True)


def test_takes_one_list_and_empties_it() -> None:
    run = compiled(lambda x: x * 2 + 1, torch.ones(3))
    assert run._boxed_call is True
    x = torch.arange(3.0)
    args = [x]
    (y,) = run(args)
    assert args == []
    assert torch.equal(y, x * 2 + 1)
    with pytest.raises(TypeError, match="one positional argument"):
        run(x, x)
    with pytest.raises(ValueError, match="one list of inputs and was given a tuple"):
        run((x,))
    with pytest.raises(ValueError, match="got 2 inputs; the graph was compiled for 1"):
        run([x, x])


def test_inputs_die_with_the_call() -> None:
    run = compiled(lambda x: x.sin(), torch.ones(3))
    x = torch.ones(3)
    alive = weakref.ref(x)
    args = [x]
    del x
    run(args)
    assert alive() is None


def test_results_die_with_the_caller() -> None:
    run = compiled(lambda x: x.sin(), torch.ones(3))
    (y,) = run([torch.ones(3)])
    alive = weakref.ref(y)
    del y
    assert alive() is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            torch.ones(2, 3, dtype=torch.float64),
            r"input 0 \(L\['x'\]\) has dtype double; the graph was compiled for float",
        ),
        (torch.ones(3, 2), r"has sizes \[3, 2\]; the graph was compiled for \[2, 3\]"),
        (torch.ones(6), r"has sizes \[6\]; the graph was compiled for \[2, 3\]"),
        (torch.ones(3, 2).t(), r"has strides \[1, 2\]; the graph was compiled for \[3, 1\]"),
        (torch.ones(2, 3, device="meta"), "has device meta; the graph was compiled for cpu"),
        (torch.ones(2, 3).to_sparse(), "has layout Sparse; the graph was compiled for Strided"),
        (1.0, "has type float; the graph was compiled for a tensor"),
    ],
)
def test_misfits_are_named(given: Any, message: str) -> None:
    run = compiled(lambda x: x.sin(), torch.ones(2, 3))
    with pytest.raises(ValueError, match=message):
        run([given])
    assert torch.equal(run([torch.ones(2, 3)])[0], torch.ones(2, 3).sin())


def test_lazy_views_and_gradients_of_inputs() -> None:
    run = compiled(lambda x: torch.view_as_real(x).clone(), torch.ones(3, dtype=torch.complex64))
    x = torch.randn(3, dtype=torch.complex64)
    assert torch.equal(run([x.conj()])[0], torch.view_as_real(x.conj().resolve_conj()))
    run = compiled(lambda x: x.exp(), torch.ones(3))
    weight = torch.nn.Parameter(torch.ones(3))
    with torch.enable_grad():
        (y,) = run([weight])
    assert not y.requires_grad
    assert torch.equal(y, weight.exp())


def test_slices_are_used_where_they_stand() -> None:
    run = compiled(lambda x: x.mul_(2), torch.ones(3))
    base = torch.ones(8)
    run([base[2:5]])
    assert torch.equal(base, torch.tensor([1.0, 1, 2, 2, 2, 1, 1, 1]))


def test_results_in_one_buffer_share_it() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.sin()
        return y, y[1:], y.view(torch.int32), x.cos()

    run = compiled(fn, torch.ones(4))
    x = torch.randn(4)
    whole, tail, bits, other = run([x])
    assert torch.equal(whole, x.sin())
    whole[1] = 7
    assert tail[0] == 7
    assert bits.dtype == torch.int32
    assert torch.equal(bits, whole.view(torch.int32))
    assert other.untyped_storage().data_ptr() != whole.untyped_storage().data_ptr()


def test_results_keep_the_strides_of_eager() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sin(), x.t().sin(), x.t().contiguous(), x.sum(0, keepdim=True)

    run = compiled(fn, torch.ones(3, 4))
    x = torch.randn(3, 4)
    for got, expected in zip(run([x]), fn(x), strict=True):
        assert torch.equal(got, expected)
        assert got.stride() == expected.stride()


def test_results_do_not_change_with_the_next_call() -> None:
    run = compiled(lambda x: x + 1, torch.ones(3))
    (first,) = run([torch.zeros(3)])
    (second,) = run([torch.ones(3)])
    assert torch.equal(first, torch.ones(3))
    assert torch.equal(second, torch.full((3,), 2.0))


def test_results_are_ordinary_tensors() -> None:
    run = compiled(lambda x: x + 1, torch.ones(3))
    (y,) = run([torch.ones(3)])
    y.resize_(100)
    assert y.numel() == 100
    (z,) = run([torch.ones(3)])
    with torch.enable_grad():
        z.requires_grad_().sum().backward()
    assert torch.equal(z.grad, torch.ones(3))


def test_errors_of_operators_pass_through_and_the_next_call_works() -> None:
    def fn(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return x.index_select(0, index) + 1

    index = torch.tensor([1, 0])
    run = compiled(fn, torch.ones(3), index)
    with pytest.raises(IndexError, match="out of range"):
        run([torch.ones(3), torch.tensor([0, 3])])
    assert torch.equal(run([torch.arange(3.0), index])[0], torch.tensor([2.0, 1.0]))


class Interrupted(BaseException):
    pass


@torch.library.custom_op("bridge_tests::interruptible", mutates_args=())
def interruptible(x: torch.Tensor) -> torch.Tensor:
    if x[0] < 0:
        raise Interrupted("stop")
    return x + 1


@interruptible.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_exceptions_of_python_operators_keep_their_type() -> None:
    run = compiled(lambda x: interruptible(x * 2) * 3, torch.ones(3))
    with pytest.raises(Interrupted, match="stop"):
        run([-torch.ones(3)])
    assert torch.equal(run([torch.ones(3)])[0], torch.full((3,), 9.0))


KEPT: list[torch.Tensor] = []


@torch.library.custom_op("bridge_tests::hoarder", mutates_args=())
def hoarder(x: torch.Tensor) -> torch.Tensor:
    KEPT.append(x)
    result = x + 1
    KEPT.append(result)
    return result


@hoarder.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_what_a_python_operator_keeps_stays_as_it_was() -> None:
    run = compiled(lambda x: hoarder(x * 2).mul_(5), torch.ones(3))
    KEPT.clear()
    for value in (1.0, 2.0):
        (y,) = run([torch.full((3,), value)])
        assert torch.equal(y, torch.full((3,), (2 * value + 1) * 5))
    gc.collect()
    assert [kept[0].item() for kept in KEPT] == [2.0, 3.0, 4.0, 5.0]
    KEPT.clear()


def test_calls_from_many_threads() -> None:
    run = compiled(lambda x: torch.mm(x, x).sin(), torch.ones(64, 64))
    inputs = [torch.randn(64, 64) for _ in range(8)]
    results: dict[int, torch.Tensor] = {}

    def work(i: int) -> None:
        for _ in range(20):
            (results[i],) = run([inputs[i]])

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, x in enumerate(inputs):
        torch.testing.assert_close(results[i], torch.mm(x, x).sin())


def test_written_inputs_that_overlap_are_refused() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2

    run = compiled(fn, torch.ones(3), torch.ones(3))
    base = torch.ones(4)
    with pytest.raises(_C.InputsOverlap):
        run([base[:3], base[1:]])
    assert torch.equal(base, torch.ones(4))


def test_callables_take_attributes() -> None:
    run = compiled(lambda x: x + 1, torch.ones(3))
    run.owner = run
    alive = weakref.ref(run)
    del run
    gc.collect()
    assert alive() is None


def test_a_profiler_sees_the_operators() -> None:
    run = compiled(lambda x: torch.logaddexp(x, x), torch.ones(3))
    with torch.profiler.profile() as profile:
        run([torch.ones(3)])
    assert "aten::logaddexp" in {event.name for event in profile.events()}


def test_allocations_by_operator() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.native_layer_norm(torch.mm(x, x), [64], None, None, 1e-5)[0]

    run = compiled(fn, torch.ones(64, 64))
    x = torch.ones(64, 64)
    run([x])
    _C.allocations_start()
    try:
        with pytest.raises(ValueError, match="already"):
            _C.allocations_start()
        run([x])
    finally:
        rows = _C.allocations_stop()
    names = {name: (count, size) for name, count, size in rows}
    assert any("native_layer_norm" in name for name in names)
    assert not any("mm" in name for name in names)
    with pytest.raises(ValueError, match="not being counted"):
        _C.allocations_stop()
