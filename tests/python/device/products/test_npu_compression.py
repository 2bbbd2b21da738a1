# SPDX-License-Identifier: Apache-2.0
"""npu_hans_encode and npu_hans_decode: no bits are lost, and similar exponents take less memory."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import normal

SPECIAL = [0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1e-40, -1e-7, 6e4]


def buffers(x: torch.Tensor, share: float = 1.0) -> list[torch.Tensor]:
    """Returns pdf, mantissa, fixed and var for ``x``. fixed has ``share`` bytes for each exponent."""
    rest = x.numel() * (x.element_size() - 1) // x.element_size()
    room = int(x.numel() * share) // x.element_size()
    sizes = (rest, room, x.numel() // x.element_size() + 16)
    return [torch.zeros(1, 256, dtype=torch.int32, device=x.device)] + [x.new_zeros(n) for n in sizes]


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.cpu().contiguous().view(torch.int16)


def there_and_back(x: torch.Tensor, out: list[torch.Tensor], **kwargs: bool) -> None:
    results = torch.ops.npu.npu_hans_encode.out(x, **kwargs, out=out)
    assert all(a.data_ptr() == b.data_ptr() for a, b in zip(results, out, strict=True))
    pdf, mantissa, fixed, var = out
    again = torch.full_like(x, 7, memory_format=torch.contiguous_format)
    got = torch.ops.npu.npu_hans_decode.out(mantissa, fixed, var, pdf, kwargs.get("reshuff", False), out=again)
    assert got.data_ptr() == again.data_ptr()
    assert torch.equal(bits(again), bits(x))


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_nothing_is_lost(device: str, dtype: torch.dtype, share: float) -> None:
    x = normal(24, 64)
    x[0, :8] = torch.tensor(SPECIAL)
    x = x.to(dtype).to(device)
    out = buffers(x, share)
    there_and_back(x, out, statistic=True)
    assert int(out[0].sum()) == x.numel()
    there_and_back(x.t(), out, statistic=False, reshuff=True)  # keeps the pdf


def test_counts_exponents() -> None:
    x = torch.tensor([1.0, -1.5, 2.0, 0.25] * 16)
    out = buffers(x)
    there_and_back(x, out, statistic=True)
    want = torch.zeros(1, 256, dtype=torch.int32)
    want[0, [125, 127, 128]] = torch.tensor([16, 32, 16], dtype=torch.int32)
    assert torch.equal(out[0], want)


def test_any_bits_with_any_pdf() -> None:
    x = torch.randint(-(2**31), 2**31, (64, 64), generator=torch.Generator().manual_seed(0)).to(torch.int32)
    for pdf in (torch.zeros(256), torch.arange(256)):
        out = buffers(x.view(torch.float32), 1.25)
        out[0] = pdf.to(torch.int32)
        there_and_back(x.view(torch.float32), out)


def test_exponents_get_small() -> None:
    x = normal(128, 128, dtype=torch.bfloat16)
    out = buffers(x, 0.375)  # 3 bits each: the entropy of exponents of normal numbers is 2.6 bits
    there_and_back(x, out, statistic=True)
    assert not out[3].any()


def test_no_elements() -> None:
    there_and_back(torch.zeros(0), buffers(torch.zeros(0)), statistic=True)


def test_calls_on_meta_return_their_out_tensors() -> None:
    x = torch.empty(64, 64, device="meta")
    results = torch.ops.npu.npu_hans_encode.out(x, out=buffers(x))
    assert [tuple(r.shape) for r in results] == [(1, 256), (3072,), (1024,), (1040,)]
    assert torch.ops.npu.npu_hans_decode.out(*results[1:], results[0], out=x) is x


def test_buffers_that_do_not_fit_are_refused() -> None:
    x = normal(64, 64)
    encode = torch.ops.npu.npu_hans_encode.out
    with pytest.raises(RuntimeError, match=r"npu_hans_encode: the exponents take \d+ bytes, and fixed and var have 0"):
        encode(x, True, out=[*buffers(x)[:2], x.new_zeros(0), x.new_zeros(0)])
    with pytest.raises(RuntimeError, match=r"npu_hans_encode: mantissa has 4 bytes, allowed are 12288 and more"):
        encode(x, True, out=[buffers(x)[0], x.new_zeros(1), *buffers(x)[2:]])
    with pytest.raises(RuntimeError, match=r"npu_hans_encode: out has 1 tensors, allowed are pdf, mantissa, fixed and"):
        encode(x, True, out=[x])
    with pytest.raises(RuntimeError, match=r"npu_hans_encode: pdf has 3 elements, allowed are 256"):
        encode(x, False, out=[torch.zeros(3, dtype=torch.int32), *buffers(x)[1:]])
    with pytest.raises(
        RuntimeError, match=r"npu_hans_encode: input is of type Double, allowed are Float, Half, BFloat"
    ):
        encode(x.double(), True, out=buffers(x))
    pdf, mantissa, fixed, var = buffers(x)
    with pytest.raises(RuntimeError, match=r"npu_hans_encode: mantissa is not contiguous"):
        encode(x, True, out=[pdf, x.new_zeros(3072, 2)[:, 0], fixed, var])
    with pytest.raises(RuntimeError, match=r"npu_hans_decode: mantissa has 4 bytes, allowed are 12288 and more"):
        torch_npu.npu_hans_decode(mantissa[:1], fixed, var, pdf, out=x)
    with pytest.raises(RuntimeError, match=r"npu_hans_decode: fixed and var have 0 bytes, allowed are 4 and more"):
        torch_npu.npu_hans_decode(mantissa, fixed[:0], var[:0], pdf, out=x)
