# SPDX-License-Identifier: Apache-2.0
"""NaN, infinities, zeros of both signs and denormals give the bits of eager, in our kernels and in ATen's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from npugraph import artifacts
from tests.python.backend.checks import compile_ex

NAN, INF = float("nan"), float("inf")
NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3e38, -3e38, 1e-45, -1e-45, 1e-39, INF, -INF, NAN]
# Our kernels compute small tensors, and ATen computes large ones.
SIZES = {"kernels": 14 * 14, "aten": 14 * 14 * 100}


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def pairs(size: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the operands of all pairs of NUMBERS, repeated to ``size`` elements."""
    a, b = torch.cartesian_prod(torch.tensor(NUMBERS), torch.tensor(NUMBERS)).to(dtype).unbind(1)
    repeats = size // len(a)
    return a.repeat(repeats), b.repeat(repeats)


def assert_same_bits(got: torch.Tensor, want: torch.Tensor) -> None:
    """Checks that NaN is at the same places, and that all other bits are equal, so that 0 and -0 differ."""
    assert got.dtype == want.dtype
    if got.is_floating_point():
        assert torch.equal(got.isnan(), want.isnan())
        got, want = (t.masked_fill(t.isnan(), 0).view(torch.uint8) for t in (got, want))
    assert torch.equal(got, want)


# Functions by the name of the kernel that computes small tensors.
FUNCTIONS = {
    "binary_maximum": torch.maximum,
    "binary_minimum": torch.minimum,
    "binary_eq": torch.eq,
    "binary_ne": torch.ne,
    "binary_lt": torch.lt,
    "binary_le": torch.le,
    "binary_gt": torch.gt,
    "binary_ge": torch.ge,
    "binary_add": torch.add,
    "binary_sub": torch.sub,
    "binary_mul": torch.mul,
    "unary_relu": lambda a, b: torch.relu(a),
    "unary_abs": lambda a, b: torch.abs(a),
    "unary_neg": lambda a, b: torch.neg(a),
    "unary_rsqrt": lambda a, b: torch.rsqrt(a),
    "unary_reciprocal": lambda a, b: torch.reciprocal(a),
}
OTHERS = {
    "div": torch.div,
    "clamp": lambda a, b: torch.clamp(a, -1.0, 2.0),
    "clamp to tensors": lambda a, b: torch.clamp(a, b, b + 1),
    "clamp to nan": lambda a, b: torch.clamp(a, min=NAN),
    "relu6": lambda a, b: torch.nn.functional.relu6(a),
    "sign": lambda a, b: torch.sign(a),
    "copysign": torch.copysign,
    "where": lambda a, b: torch.where(a > b, a, b),
    "isnan": lambda a, b: torch.isnan(a) | torch.isinf(b),
    "fmax": torch.fmax,
    "to bool": lambda a, b: a.bool(),
    "to int64": lambda a, b: a.nan_to_num(0, 9e18, -9e18).clamp(-9e18, 9e18).long(),
    "to int32": lambda a, b: a.nan_to_num(0, 0, 0).clamp(-2e9, 2e9).int(),
    "to int8 and back": lambda a, b: a.nan_to_num(0, 0, 0).clamp(-100, 100).to(torch.int8).float(),
    "to half and back": lambda a, b: a.half().float(),
    "to bfloat16 and back": lambda a, b: a.bfloat16().float(),
    "largest": lambda a, b: torch.stack([a, b]).amax(0),
    "times a number": lambda a, b: a * 0 + a * -0.5,
    "compared with numbers": lambda a, b: (a > 0) & (b <= INF) | (a == NAN),
}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("kernel, fn", FUNCTIONS.items(), ids=FUNCTIONS)
def test_of_kernels(kernel, fn, size) -> None:
    inputs = pairs(size)
    assert_same_bits(compile_ex(fn)(*inputs), fn(*inputs))
    (artifact,) = artifacts()
    assert (f"kernel.{kernel}" in [task.name for task in artifact.tasks]) == (size == SIZES["kernels"])


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("fn", OTHERS.values(), ids=OTHERS)
def test_of_others(fn, dtype, size) -> None:
    inputs = pairs(size, dtype)
    assert_same_bits(compile_ex(fn)(*inputs), fn(*inputs))
    assert artifacts()


def test_square_root() -> None:
    """Our square root is correctly rounded. That of torch may be off in the last bit."""
    x, _ = pairs(SIZES["kernels"])
    compiled = compile_ex(torch.sqrt)
    assert_same_bits(compiled(x), x.double().sqrt().float())
    (artifact,) = artifacts()
    assert [task.name for task in artifact.tasks] == ["kernel.unary_sqrt"]


@pytest.fixture
def denormals() -> Iterator[None]:
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor does not flush denormals")
    yield
    torch.set_flush_denormal(False)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_denormals_as_the_caller_says(size, denormals) -> None:
    def fn(x):
        return x * 0.5, x + x, x - x * 0.25, x.abs() * 0.75, x > 0, x.reciprocal()

    x = torch.full((size,), 4e-40)
    compiled = compile_ex(fn)
    for flush in (False, True, False, True):
        torch.set_flush_denormal(flush)
        got, want = compiled(x), fn(x)
        torch.set_flush_denormal(False)
        assert bool(want[0].any()) != flush
        for a, b in zip(got, want, strict=True):
            assert_same_bits(a, b)
