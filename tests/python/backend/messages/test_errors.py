# SPDX-License-Identifier: Apache-2.0
"""Errors reach the caller as eager raises them, nothing is lost, and the next call works."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from npugraph import artifacts
from tests.python.backend.checks import compile_ex


@pytest.fixture(autouse=True)
def interrupts_raise():
    """Makes interrupts raise KeyboardInterrupt even if the process was started with interrupts ignored, as shells start
    jobs in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def raised(fn, *args) -> BaseException:
    with pytest.raises(BaseException) as caught:
        fn(*args)
    return caught.value


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, i: x.gather(0, i) + 1,
        lambda x, i: x[i] * 2,
        lambda x, i: torch.nn.functional.embedding(i, x[:, None]) + 1,
        lambda x, i: x.index_select(0, i).sin(),
        lambda x, i: x.index_copy(0, i, x[:2]) + 1,
        lambda x, i: x.index_put((i,), x[:2]) + 1,
        lambda x, i: x.scatter(0, i, 2.0) + 1,
        lambda x, i: torch.nn.functional.one_hot(i, 4) + 1,
        lambda x, i: x.take(i) + 1,
    ],
)
def test_indices_out_of_range(fn) -> None:
    compiled = compile_ex(fn)
    x, good, bad = torch.randn(4), torch.tensor([3, 0]), torch.tensor([1, 7])
    assert torch.equal(compiled(x, good), fn(x, good))
    want, got = raised(fn, x, bad), raised(compiled, x, bad)
    assert type(got) is type(want)
    assert str(want).splitlines()[0] in str(got)
    assert torch.equal(compiled(x, good), fn(x, good))
    assert len(artifacts()) == 1


def test_operators_that_refuse_values() -> None:
    for fn, good, bad in (
        (lambda x: torch.linalg.cholesky(x) + 1, torch.eye(3), -torch.eye(3)),
        (lambda x: torch.linalg.inv(x) + 1, torch.eye(3), torch.zeros(3, 3)),
        (lambda x: torch.multinomial(x, 2) + 1, torch.ones(3), -torch.ones(3)),
        (lambda x: torch.bernoulli(x) + 1, torch.ones(3), torch.full((3,), 2.0)),
    ):
        compiled = compile_ex(fn)
        compiled(good)
        want, got = raised(fn, bad), raised(compiled, bad)
        assert type(got) is type(want)
        assert str(want).splitlines()[0] in str(got)
        compiled(good)


def test_an_assertion_that_fails() -> None:
    def fn(x):
        torch._assert_async((x > 0).all(), "all must be positive")
        return x + 1

    compiled = compile_ex(fn)
    compiled(torch.ones(3))
    with pytest.raises(RuntimeError, match="all must be positive"):
        compiled(-torch.ones(3))
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))


class Stop(BaseException):
    pass


INTERRUPTIONS: list[Callable[[], Any]] = []


@torch.library.custom_op("backend_tests::interruptible", mutates_args=())
def interruptible(x: torch.Tensor) -> torch.Tensor:
    for interrupt in INTERRUPTIONS:
        interrupt()
    return x.clone()


interruptible.register_fake(lambda x: torch.empty_like(x))


def raise_(error: BaseException) -> None:
    raise error


@torch.library.custom_op("backend_tests::triple_", mutates_args=("x",))
def triple_(x: torch.Tensor) -> None:
    x.mul_(3)


# Options that decide how inputs are written: in place, or by a copy at the end of the graph.
WRITES = [{}, {"input_inplace_pass": False}, {"disable_passes": ["reinplace_inputs"]}]
# Kind -> an action inside an operator, and the class and the message of the exception that reaches the caller.
KINDS = {
    "error": (lambda: raise_(ValueError("stop here")), ValueError, "stop here"),
    "interrupt": (lambda: raise_(KeyboardInterrupt("stop here")), KeyboardInterrupt, "stop here"),
    "no Exception": (lambda: raise_(Stop("stop here")), Stop, "stop here"),
    "signal": (lambda: signal.raise_signal(signal.SIGINT), KeyboardInterrupt, None),
}


@pytest.fixture
def interrupt() -> Iterator[Callable[[Callable[[], Any]], None]]:
    """Yields a function that makes the next runs of `interruptible` call its argument."""
    INTERRUPTIONS.clear()
    yield INTERRUPTIONS.append
    INTERRUPTIONS.clear()


@pytest.mark.parametrize("inside, kind, message", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("options", WRITES)
def test_exceptions_inside_python(inside, kind, message, options, interrupt) -> None:
    def fn(x, y, z):
        triple_(x)
        z.add_(1)
        r = interruptible(x) + 1
        triple_(y)
        return r

    compiled = compile_ex(fn, options=options)
    compiled(torch.ones(3), torch.ones(3), torch.ones(3))
    x, y, z = torch.ones(3), torch.ones(3), torch.ones(3)
    interrupt(inside)
    with pytest.raises(kind, match=message):
        compiled(x, y, z)
    assert torch.equal(x, torch.full((3,), 3.0))
    assert torch.equal(y, torch.ones(3))
    assert torch.equal(z, torch.full((3,), 2.0))
    INTERRUPTIONS.clear()
    assert torch.equal(compiled(x, y, z), torch.full((3,), 10.0))
    assert torch.equal(y, torch.full((3,), 3.0))
    assert torch.equal(z, torch.full((3,), 3.0))


def test_no_write_is_moved_ahead_of_an_operator_that_may_fail() -> None:
    def fn(x, i):
        y = x[i]
        x.add_(1)
        return y

    compiled = compile_ex(fn)
    x = torch.arange(4.0)
    compiled(x, torch.tensor([0]))
    before = x.clone()
    with pytest.raises(IndexError):
        compiled(x, torch.tensor([9]))
    assert torch.equal(x, before)
    compiled(x, torch.tensor([0]))
    assert torch.equal(x, before + 1)


def test_an_update_that_fails_has_written_nothing() -> None:
    """For this reason, the update may write into the input itself, and no copy is needed."""

    def fn(x, i, y):
        x.copy_(torch.index_put(x, (i,), y))
        return x * 2

    compiled = compile_ex(fn)
    x, y = torch.zeros(4, 2), torch.ones(2, 2)
    for index, dtype in (([0, -4], torch.int64), ([1, 3], torch.int32)):
        good = torch.tensor(index, dtype=dtype)
        assert torch.equal(compiled(x, good, y), fn(x.clone(), good, y))
        assert artifacts()[-1].memory["copied_bytes_per_replay"] == 0
        before, bad = x.clone(), good.clone()
        bad[1] = 9
        with pytest.raises(IndexError, match="index 9 is out of bounds for dimension 0 with size 4"):
            compiled(x, bad, y + 1)
        assert torch.equal(x, before)


@pytest.mark.parametrize("options", WRITES)
@pytest.mark.parametrize("size", [4, 100_000])
def test_completed_writes_survive_an_operator_that_fails(options, size) -> None:
    """This holds even if inputs are not written in place. Kernels write small inputs, ATen writes large ones."""

    def fn(x, t, i):
        x.add_(1)
        return t[i]

    compiled = compile_ex(fn, options=options)
    t, good, bad = torch.arange(4.0), torch.tensor([0]), torch.tensor([9])
    x, expected = torch.zeros(size), torch.zeros(size)
    for i in (good, bad, good, bad):
        results = []
        for function, written in ((fn, expected), (compiled, x)):
            try:
                results.append(function(written, t, i))
            except IndexError as error:
                results.append(str(error))
        assert results[0] == results[1]
        assert torch.equal(x, expected)


def test_exceptions_of_higher_order_operators(interrupt) -> None:
    def fn(x):
        return torch.cond((x.sum() > 0).float(), lambda t: interruptible(t), lambda t: t.cos(), (x,)) + 1

    compiled = compile_ex(fn)
    with pytest.warns(UserWarning, match="cond"):
        compiled(torch.ones(3))
    interrupt(lambda: raise_(ValueError("stop here")))
    with pytest.raises(ValueError, match="stop here"):
        compiled(torch.ones(3))
    INTERRUPTIONS.clear()
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))


@pytest.mark.parametrize("left", [0, 4, 8])
def test_storage_that_was_freed_or_shrunk(left) -> None:
    compiled = compile_ex(lambda x: x + 1)
    x = torch.ones(4)
    compiled(x)
    x.untyped_storage().resize_(left)
    with pytest.raises(ValueError, match=rf"input 0 \(L\['x'\]\) needs 16 bytes of memory; its storage has {left}"):
        compiled(x)
    x.untyped_storage().resize_(16)
    x.fill_(1)
    assert torch.equal(compiled(x), torch.full((4,), 2.0))


def test_parameter_whose_storage_was_freed_or_moved() -> None:
    """The same holds for a buffer that a task writes. A refused call writes nothing, and the memory may come back at
    another address."""

    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4))
            self.register_buffer("calls", torch.zeros(1000))

        def forward(self, x):
            self.calls += 1
            return x * self.weight

    model = Counting()
    with torch.no_grad():
        compiled = compile_ex(model)
        compiled(torch.ones(4))
        for tensor, name in ((model.weight.data, "weight"), (model.calls, "calls")):
            values = tensor.clone()
            storage = tensor.untyped_storage()
            size = storage.nbytes()
            storage.resize_(0)
            with pytest.raises(ValueError, match=rf"{name}.* needs {size} bytes of memory; its storage has 0"):
                compiled(torch.ones(4))
            storage.resize_(1 << 20)
            tensor.copy_(values)
            assert torch.equal(compiled(torch.full((4,), 3.0)), torch.full((4,), 3.0))
    assert torch.equal(model.calls, torch.full((1000,), 3.0))


def test_storage_that_was_shrunk_under_a_window_of_symbolic_size() -> None:
    compiled = compile_ex(lambda x: x + 1, dynamic=True)
    base = torch.ones(10)
    compiled(base[2:8])
    compiled(base[3:5])
    window = base[4:10]
    base.untyped_storage().resize_(36)
    with pytest.raises(ValueError, match=r"\(L\['x'\]\) needs 40 bytes of memory; its storage has 36"):
        compiled(window)


def test_other_dtypes_and_devices_behind_the_guards() -> None:
    compile_ex(lambda x: x.sin())(torch.ones(2, 3))
    run = artifacts()[0]._core.callable(boxed=True)
    with pytest.raises(ValueError, match=r"input 0 \(L\['x'\]\) has dtype double; the graph was compiled for float"):
        run([torch.ones(2, 3, dtype=torch.float64)])
    with pytest.raises(ValueError, match="has device meta; the graph was compiled for cpu"):
        run([torch.ones(2, 3, device="meta")])
    assert torch.equal(run([torch.ones(2, 3)])[0], torch.ones(2, 3).sin())


def test_errors_of_python_partitions_cannot_be_saved(tmp_path) -> None:
    compiled = compile_ex(lambda x: torch.cond((x.sum() > 0).float(), lambda t: t.sin(), lambda t: t.cos(), (x,)) + 1)
    with pytest.warns(UserWarning, match="cond"):
        compiled(torch.ones(3))
    with pytest.raises(ValueError, match="cond"):
        artifacts()[0].save(tmp_path / "program.ngp")
    assert not (tmp_path / "program.ngp").exists()


@pytest.mark.parametrize(
    ("fn", "inputs"),
    [
        (torch.mm, (torch.randn(3, 4), torch.randn(4, 5).double())),
        (torch.mm, (torch.randn(256, 256), torch.randn(256, 256).bfloat16())),
        (torch.nn.functional.linear, (torch.randn(3, 4), torch.randn(5, 4).bfloat16())),
        (torch.addmm, (torch.randn(5).double(), torch.randn(3, 4), torch.randn(4, 5))),
        (torch.addmm, (torch.randn(256).double(), torch.randn(256, 256), torch.randn(256, 256))),
        (torch.index_put, (torch.zeros(4), (torch.tensor([1]),), torch.ones(1).double())),
        (torch.nn.functional.cross_entropy, (torch.randn(3, 4), torch.ones(3, dtype=torch.int32))),
    ],
)
def test_operands_of_wrong_types_are_the_users(fn, inputs) -> None:
    def call(*args):
        return fn(*args) + 1

    want, got = raised(call, *inputs), raised(compile_ex(call), *inputs)
    assert type(got) is type(want)
    assert str(want).splitlines()[0] in str(got)
    place, line = got.__notes__[-2:]
    assert re.fullmatch(r"in aten\.\S+ \(\S*test_errors\.py:\d+ in call\)", place)
    assert " GRAPH invalid parameter in " in line


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, n: torch.zeros(n) + 1,
        lambda x, n: torch.arange(n) + 1,
        lambda x, n: x.split([n, 4 - n])[0] * 2,
        lambda x, n: x[0, :1].expand(n) * 2,
        lambda x, n: x.view(n, -1) * 2,
        lambda x, n: x.repeat(n, 1) * 2,
    ],
)
def test_errors_of_negative_sizes_are_of_eagers_type(fn: Callable[..., Any]) -> None:
    def call(x, n):
        return fn(x, n.sum().item())

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled, x = compile_ex(call), torch.randn(4, 3)
        assert torch.equal(compiled(x, torch.tensor([2])), call(x, torch.tensor([2])))
        given = x, torch.tensor([-9])
        got = raised(compiled, *given)
    assert type(got) is type(raised(call, *given))
    assert re.match(r"size 0 of \w+, operand \d of task \d+ \(.*test_errors\.py:\d+ in .*\) is negative: -", str(got))


def test_a_negative_size_names_what_it_belongs_to() -> None:
    def fn(x, i):
        doubled = x * 2
        return doubled.cumsum(0).narrow(0, 1, (i * 1).sum().item()).sort().values

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = compile_ex(fn)
        x = torch.randn(4)
        assert torch.equal(compiled(x, torch.tensor([2])), fn(x, torch.tensor([2])))
        with pytest.raises(RuntimeError) as caught:
            compiled(x, torch.tensor([-2]))
    assert re.match(
        r"size 0 of \w+, operand 0 of task \d+ \(aten\.sort at \S*test_errors\.py:\d+ in fn\) is negative: -2$",
        str(caught.value),
    )
