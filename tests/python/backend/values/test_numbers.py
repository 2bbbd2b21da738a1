# SPDX-License-Identifier: Apache-2.0
"""Operators with a number, for all 65,536 values of bf16 and f16: compiled code has the bits of eager, alone and in a
chain. In eager, some operators round the number to the type of the tensor, and others do not."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
import torch.nn.functional as F

import npugraph
from tests.python.backend.checks import compile_ex

aten = torch.ops.aten
DTYPES = [torch.bfloat16, torch.float16]
# None of them is exact in a type of 16 bits. The last one rounds to 2, for which a power is a product.
NUMBERS = (0.7, -1.1, 0.3, 2.00001)

Row = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]
# By operator: a call with all values, the same values in another order, and a number.
ROWS: dict[str, Row] = {
    "add.Tensor": lambda x, y, n: torch.add(x, y, alpha=n),
    "add.Scalar": lambda x, y, n: x + n,
    # Dynamo writes torch.addcdiv with a value as three operators, each of which rounds.
    "addcdiv.default": lambda x, y, n: aten.addcdiv(x, y, y.flip(0), value=n),
    "addcmul.default": lambda x, y, n: torch.addcmul(x, y, y.flip(0), value=n),
    "clamp.default": lambda x, y, n: torch.clamp(x, -abs(n), abs(n)),
    "clamp_max.default": lambda x, y, n: torch.clamp_max(x, n),
    "clamp_min.default": lambda x, y, n: torch.clamp_min(x, n),
    "constant_pad_nd.default": lambda x, y, n: F.pad(x, (3, 0), value=n),
    "copysign.Scalar": lambda x, y, n: torch.copysign(x, n),
    "div.Scalar": lambda x, y, n: x / n,
    "div.Scalar_mode": lambda x, y, n: torch.div(x, n, rounding_mode="trunc"),
    "eq.Scalar": lambda x, y, n: x == n,
    "fill.Scalar": lambda x, y, n: aten.fill.Scalar(x, n),
    "floor_divide.Scalar": lambda x, y, n: torch.floor_divide(x, n),
    "fmod.Scalar": lambda x, y, n: torch.fmod(x, n),
    "full_like.default": lambda x, y, n: torch.full_like(x, n),
    "ge.Scalar": lambda x, y, n: x >= n,
    "gt.Scalar": lambda x, y, n: x > n,
    "hardshrink.default": lambda x, y, n: F.hardshrink(x, abs(n)),
    "hardshrink_backward.default": lambda x, y, n: aten.hardshrink_backward(y, x, abs(n)),
    "hardtanh.default": lambda x, y, n: F.hardtanh(x, -abs(n), abs(n)),
    "hardtanh_backward.default": lambda x, y, n: aten.hardtanh_backward(y, x, -abs(n), abs(n)),
    "index_fill.int_Scalar": lambda x, y, n: x.index_fill(0, torch.arange(0, 65536, 3), n),
    "le.Scalar": lambda x, y, n: x <= n,
    "leaky_relu.default": lambda x, y, n: F.leaky_relu(x, n),
    "leaky_relu_backward.default": lambda x, y, n: aten.leaky_relu_backward(y, x, n, False),
    "lerp.Scalar": lambda x, y, n: torch.lerp(x, y, n),
    "lt.Scalar": lambda x, y, n: x < n,
    "masked_fill.Scalar": lambda x, y, n: x.masked_fill(y > 1, n),
    "mul.Scalar": lambda x, y, n: x * n,
    "nan_to_num.default": lambda x, y, n: torch.nan_to_num(x, n, n, -n),
    "native_dropout_backward.default": lambda x, y, n: aten.native_dropout_backward(x, y > 1, n),
    "ne.Scalar": lambda x, y, n: x != n,
    "remainder.Scalar": lambda x, y, n: torch.remainder(x, n),
    "remainder.Scalar_Tensor": lambda x, y, n: torch.remainder(n, x),
    "rsub.Scalar": lambda x, y, n: n - x,
    "rsub.Tensor": lambda x, y, n: torch.rsub(x, y, alpha=n),
    "softshrink.default": lambda x, y, n: F.softshrink(x, abs(n)),
    "softshrink_backward.default": lambda x, y, n: aten.softshrink_backward(y, x, abs(n)),
    "sub.Scalar": lambda x, y, n: x - n,
    "sub.Tensor": lambda x, y, n: torch.sub(x, y, alpha=n),
    "threshold.default": lambda x, y, n: F.threshold(x, n, -n),
    "threshold_backward.default": lambda x, y, n: aten.threshold_backward(y, x, n),
    "where.Scalar": lambda x, y, n: torch.where(y > 1, n, -n).to(x.dtype),
    "where.ScalarOther": lambda x, y, n: torch.where(y > 1, x, n),
    "where.ScalarSelf": lambda x, y, n: torch.where(y > 1, n, x),
}
# More ways to give the same operators numbers.
OTHER_ROWS: dict[str, Row] = {
    "number with alpha": lambda x, y, n: torch.add(x, 0.3, alpha=n) - torch.sub(y, 0.3, alpha=n),
    "number minus tensor with alpha": lambda x, y, n: torch.rsub(x, 0.3, alpha=n),
    "quotient of a number": lambda x, y, n: n / x,
    "floor of a quotient": lambda x, y, n: torch.div(x, n, rounding_mode="floor"),
    "written": lambda x, y, n: x.clone().add_(n).mul_(n).sub_(y, alpha=n).clamp_(max=n),
    "added f32": lambda x, y, n: x + torch.tensor(n),
    "subtracted f64": lambda x, y, n: torch.tensor(n, dtype=torch.float64) - x,
    "factor f32": lambda x, y, n: x * torch.tensor(n),
    "first factor f32": lambda x, y, n: torch.tensor(n) * x,
    "divisor f64": lambda x, y, n: x / torch.tensor(n, dtype=torch.float64),
    "dividend f32": lambda x, y, n: torch.tensor(n) / x,
    "divisor f32, rounded down": lambda x, y, n: torch.div(x, torch.tensor(n), rounding_mode="floor"),
    "factor i64": lambda x, y, n: x * torch.tensor(2305 + int(n)),
    "factor of one integer": lambda x, y, n: x * torch.tensor([2305]),
    "added i64": lambda x, y, n: x + torch.tensor(2305),
    "compared with f32": lambda x, y, n: x > torch.tensor(n),
    "remainder of f32": lambda x, y, n: torch.remainder(x, torch.tensor(n)),
    "at most f32": lambda x, y, n: torch.minimum(x, torch.tensor(n)),
    "from where f32": lambda x, y, n: torch.where(y > 1, x, torch.tensor(n)),
    "integers and numbers": lambda x, y, n: ((x > y).short() * n - (y.isinf().int() + n) / n).to(x.dtype),
    "0-dim": lambda x, y, n: torch.stack([v * n + torch.tensor(n) * v - v * torch.tensor(n) for v in x[:9].unbind()]),
}
# Functions of docs/numerics.md that have not always the bits of eager: they differ by one step of the type at most.
WITHIN_A_STEP: dict[str, Row] = {
    "celu.default": lambda x, y, n: F.celu(x, n),
    "elu.default": lambda x, y, n: F.elu(x, n),
    "elu_backward.default": lambda x, y, n: aten.elu_backward(y, abs(n), 1, 1, False, x),
    "logit.default": lambda x, y, n: torch.logit(x, abs(n) / 10),
    "logit_backward.default": lambda x, y, n: aten.logit_backward(y, x, abs(n) / 10),
    "pow.Scalar": lambda x, y, n: abs(n) ** x,
    "pow.Tensor_Scalar": lambda x, y, n: x**n,
    "softplus.default": lambda x, y, n: F.softplus(x, abs(n), 2.1),
    "softplus_backward.default": lambda x, y, n: aten.softplus_backward(y, x, abs(n), 2.1),
    "xlogy.Scalar_Other": lambda x, y, n: torch.xlogy(x, abs(n)),
    "xlogy.Scalar_Self": lambda x, y, n: torch.xlogy(n, x.abs()),
}
# Exponents for which eager computes a product or a root.
POWERS = (0, 1, 2, 3, 0.5, -0.5, -1, -2)
# Their operands are integers, their results f64, or their kernels those of ATen for any operand.
WITHOUT_NUMBERS_OF_16_BITS = (
    "__",
    "bitwise_",
    "float_power",
    "special_",
    "rrelu",
)


def all_values(dtype: torch.dtype) -> torch.Tensor:
    return torch.arange(-32768, 32768, dtype=torch.int16).view(dtype)


def operands(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    x = all_values(dtype)
    return x, x[torch.arange(65536) * 40503 % 65536]


def chain(row: Row) -> Row:
    """The operator between others, with which it is fused."""

    def negated(t: torch.Tensor) -> torch.Tensor:
        return t.logical_not() if t.dtype == torch.bool else -t

    return lambda x, y, n: negated(row(-x, -y, n))


FORMS = {"alone": lambda row: row, "chain": chain}


def steps(t: torch.Tensor) -> torch.Tensor:
    """Numbers the values of a type in their order; both zeros are 0, and NaN is beyond infinity."""
    bits = t.masked_fill(t.isnan(), math.nan).abs().view(torch.int16).int()
    return torch.where(t.signbit() & ~t.isnan(), -bits, bits)


def differing(got: torch.Tensor, want: torch.Tensor, most_steps: int = 0) -> int:
    """Counts the elements that differ in more than the payload of a NaN, or in more steps."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if most_steps:
        return int(((steps(got) - steps(want)).abs() > most_steps).sum())
    if not want.is_floating_point():
        return int((got != want).sum())
    got, want = (t.masked_fill(t.isnan(), math.nan).view(torch.int16) for t in (got, want))
    return int((got != want).sum())


def check(rows: dict[str, Row], form: str, numbers: Sequence[float], dtype: torch.dtype, most_steps: int = 0) -> None:
    """Compares calls of all rows, in one graph, with eager."""
    calls = [(name, FORMS[form](row), n) for name, row in rows.items() for n in numbers]

    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        return [row(x, y, n) for _, row, n in calls]

    x, y = operands(dtype)
    with torch.no_grad():
        found, expected = compile_ex(function)(x, y), function(x, y)
    counts = {
        (name, n): differing(got, want, most_steps)
        for (name, _, n), got, want in zip(calls, found, expected, strict=True)
    }
    wrong = {call: count for call, count in counts.items() if count}
    assert not wrong, f"elements that differ from eager: {wrong}"


def parts(rows: dict[str, Row], size: int = 12) -> Iterator[dict[str, Row]]:
    names = list(rows)
    for first in range(0, len(names), size):
        yield {name: rows[name] for name in names[first : first + size]}


@pytest.mark.parametrize("dtype", DTYPES)
def test_chains_of_operators_have_the_bits_of_eager(dtype: torch.dtype) -> None:
    for rows in parts(ROWS | OTHER_ROWS):
        check(rows, "chain", NUMBERS[:1], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_in_chains(dtype: torch.dtype) -> None:
    check(WITHIN_A_STEP, "chain", NUMBERS[:1], dtype, most_steps=1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_have_the_bits_of_eager(dtype: torch.dtype) -> None:
    """Eager has no roots of f16, but computes the power."""
    exact = [n for n in POWERS if dtype != torch.float16 or abs(n) != 0.5]
    check({"pow": WITHIN_A_STEP["pow.Tensor_Scalar"]}, "chain", exact, dtype)


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ROWS | OTHER_ROWS | WITHIN_A_STEP)
def test_every_operator_agrees_with_eager_for_every_number(name: str, form: str, dtype: torch.dtype) -> None:
    row = (ROWS | OTHER_ROWS | WITHIN_A_STEP)[name]
    check({name: row}, form, NUMBERS, dtype, most_steps=int(name in WITHIN_A_STEP))


def test_chains_are_generated() -> None:
    """The rows would say nothing about generated code if ATen computed them."""
    row = chain(ROWS["sub.Scalar"])
    compile_ex(lambda x, y: row(x, y, 0.7))(*operands(torch.bfloat16))
    assert [task.name for task in npugraph.artifacts()[-1].tasks if task.name.startswith("aten")] == []


def has_number(schema: torch._C.FunctionSchema) -> bool:
    kinds = {str(argument.type) for argument in schema.arguments}
    return "Tensor" in kinds and bool(kinds & {"number", "Optional[number]", "float", "Optional[float]"})


def test_all_pointwise_operators_have_rows() -> None:
    missing = []
    for schema in torch._C._jit_get_all_schemas():
        if not schema.name.startswith("aten::") or schema.is_mutable or not has_number(schema):
            continue
        name = f"{schema.name.removeprefix('aten::')}.{schema.overload_name or 'default'}"
        op = getattr(getattr(aten, name.split(".")[0]), name.split(".")[1])
        if torch.Tag.pointwise not in op.tags or name.startswith(WITHOUT_NUMBERS_OF_16_BITS):
            continue
        is_composite = torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
        if not is_composite and name not in ROWS | WITHIN_A_STEP:
            missing.append(name)
    assert missing == []


# Operators that multiply and add round as often as ATen's kernels do.
FUSED = {
    "alpha": lambda x, y, z: torch.add(x, y, alpha=0.7) - torch.sub(y, z, alpha=0.3) + torch.rsub(x, z, alpha=1.3),
    "addcmul": lambda x, y, z: torch.addcmul(x, y, z, value=0.7) * torch.addcmul(z, x, y),
    "addcdiv": lambda x, y, z: aten.addcdiv(x, y, z, value=0.7) * 2,
    "lerp": lambda x, y, z: torch.lerp(x, y, 0.3) * torch.lerp(x, z, 0.7) * torch.lerp(x, y, z),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FUSED)
def test_products_and_sums(name: str, dtype: torch.dtype) -> None:
    values = torch.randn(3, 4096, dtype=dtype, generator=torch.Generator().manual_seed(0)).unbind()
    assert torch.equal(compile_ex(FUSED[name])(*values), FUSED[name](*values))


def test_alpha_of_integers() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.add(x, y, alpha=3) - torch.sub(y, x, alpha=5) * torch.rsub(x, y, alpha=-2)

    values = torch.arange(-4096, 4096).view(2, -1).unbind()
    assert torch.equal(compile_ex(fn)(*values), fn(*values))
