# SPDX-License-Identifier: Apache-2.0
"""torch_npu.HiFloat8Tensor against the definition of the format ("Ascend HiFloat8 Format for Deep Learning", 2024)."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import pytest
import torch
from torch_npu import HiFloat8Tensor

# Prefix -> digits of the exponent after its sign, from table 1 of the paper.
_PREFIXES = {"11": 3, "10": 2, "01": 1, "001": 0}


def _value(bits: str) -> float:
    """Returns the number that eight bits stand for. Bits are read from left to right."""
    sign, rest = (-1) ** int(bits[0]), bits[1:]
    if bits == "10000000":
        return math.nan
    if rest == "1101111":
        return sign * math.inf
    if rest.startswith("0000"):
        number = int(rest[4:], 2)
        return sign * 2.0 ** (number - 23) if number else 0.0
    if rest.startswith("0001"):
        return sign * (1 + int(rest[4:], 2) / 8)
    prefix = next(one for one in _PREFIXES if rest.startswith(one))
    rest = rest[len(prefix) :]
    digits, fraction = rest[1 : 1 + _PREFIXES[prefix]], rest[1 + _PREFIXES[prefix] :]
    exponent = (-1) ** int(rest[0]) * int("1" + digits, 2)
    return sign * (1 + int(fraction, 2) / 2 ** len(fraction)) * 2.0**exponent


_ALL = [_value(f"{code:08b}") for code in range(256)]
_FINITE = sorted({abs(value) for value in _ALL if math.isfinite(value)})


def _rounded(x: float) -> float:
    """Returns the nearest number. A tie goes away from zero."""
    if math.isnan(x) or math.isinf(x):
        return x
    nearest = max(_FINITE, key=lambda one: (-abs(one - abs(x)), one))
    nearest = math.inf if abs(x) >= 1.25 * 2**15 else nearest
    return math.copysign(nearest, x)


def test_numbers_of_all_bits():
    bits = torch.arange(256, dtype=torch.uint8, device="npu")
    values = HiFloat8Tensor(data=bits).from_hifloat8()
    assert values.device == bits.device
    torch.testing.assert_close(values.cpu(), torch.tensor(_ALL), rtol=0, atol=0, equal_nan=True)
    again = HiFloat8Tensor.to_hifloat8(values)
    assert torch.equal(again._data, bits)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_numbers_are_rounded_to_the_nearest_and_halves_away_from_zero(dtype: torch.dtype):
    torch.manual_seed(0)
    between = [(one + other) / 2 for one, other in itertools.pairwise(_FINITE)]
    chosen = [*_FINITE, *between, *(x * (1 - 1e-6) for x in between), 40959.0, 40960.0, 1e30, math.inf, math.nan, -0.0]
    drawn = torch.randn(500, dtype=torch.float64) * 2.0 ** torch.randint(-25, 17, (500,))
    x = torch.cat([torch.tensor(chosen, dtype=torch.float64), drawn]).to(dtype)
    x = torch.cat([x, -x])
    found = HiFloat8Tensor.to_hifloat8(x.npu())
    assert found.dtype == dtype and isinstance(found, HiFloat8Tensor)
    expected = torch.tensor([_rounded(one) for one in x.double().tolist()], dtype=torch.float64)
    values = found.from_hifloat8(torch.float64).cpu()
    torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)


def test_operators_read_values_and_give_plain_tensors():
    x = HiFloat8Tensor.to_hifloat8(torch.tensor([[1.03, -3.1], [0.3, 100.0]], device="npu", dtype=torch.bfloat16))
    plain = x.from_hifloat8()
    assert plain.tolist() == [[1.0, -3.0], [0.3125, 96.0]] and plain.dtype == torch.bfloat16
    for result, expected in ((x + 1, plain + 1), (x @ x, plain @ plain), (torch.cat([x, plain]), plain.repeat(2, 1))):
        assert type(result) is torch.Tensor and torch.equal(result, expected)
    assert type(x.float()) is torch.Tensor and repr(x).startswith("HiFloat8Tensor(tensor([[")


def test_views_and_copies_keep_their_bits():
    x = HiFloat8Tensor.to_hifloat8(torch.randn(2, 6, device="npu"))
    plain = x.from_hifloat8()
    views = (x.t(), x[1], x.view(3, 4), x.chunk(2, 1)[1], x.detach())
    copies = (x.cpu(), x.to("npu:1"), x.clone(), copy.deepcopy(x), pickle.loads(pickle.dumps(x)))
    for one in (*views, *copies):
        assert type(one) is HiFloat8Tensor and one.dtype == x.dtype and one._data.device == one.device
    assert torch.equal(x.t().from_hifloat8(), plain.t()) and torch.equal(copies[0].from_hifloat8(), plain.cpu())
    assert x[1]._data.untyped_storage().data_ptr() == x._data.untyped_storage().data_ptr()
    assert copies[1].device == torch.device("npu:1")


def test_what_is_written_is_rounded():
    x = HiFloat8Tensor.to_hifloat8(torch.ones(3, device="npu"))
    assert x.add_(0.06) is x and x.from_hifloat8().tolist() == [1.0] * 3  # 1.06 rounds to 1
    x[1].fill_(2.7)
    x.mul_(torch.tensor([1.0, 1.0, 3.3], device="npu"))
    assert x.from_hifloat8().tolist() == [1.0, 2.75, 3.25]
    x.copy_(torch.tensor([0.1, 50000.0, -7.0], device="npu"))
    assert x.from_hifloat8().tolist() == [0.09375, math.inf, -7.0]
    torch.add(torch.ones(3, device="npu"), 0.13, out=x)
    assert x.from_hifloat8().tolist() == [1.125] * 3


def test_gradients_pass_through_the_rounding():
    w = torch.randn(3, 3, device="npu", requires_grad=True)
    x = torch.randn(2, 3, device="npu")
    low = HiFloat8Tensor.to_hifloat8(w)
    (x @ low).sum().backward()
    assert torch.equal(w.grad, x.sum(0)[:, None].expand(3, 3))
    parameter = torch.nn.Parameter(low.detach())
    (x @ parameter.from_hifloat8().half().float()).sum().backward()
    assert type(parameter.data) is HiFloat8Tensor
    torch.testing.assert_close(parameter.grad, w.grad, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: HiFloat8Tensor(data=torch.ones(2)), "data is of torch.float32, and must be of torch.uint8"),
        (
            lambda: HiFloat8Tensor(data=torch.ones(2).byte(), dtype=torch.int32),
            "HiFloat8Tensor: torch.int32 is none of",
        ),
        (lambda: HiFloat8Tensor.to_hifloat8(torch.arange(2)), "HiFloat8Tensor.to_hifloat8: torch.int64 is none of"),
    ],
)
def test_types_that_are_not_allowed(call, text: str):
    with pytest.raises(TypeError, match=text):
        call()
