# SPDX-License-Identifier: Apache-2.0
"""npu_ifmr, against a search in single steps of torch."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, check_refused, normal

SEARCH = (0.7, 1.3, 0.01)


def histogram(x: torch.Tensor, bins: int = 128) -> tuple[torch.Tensor, ...]:
    low, high = x.float().min(), x.float().max()
    counts = torch.histc(x.float(), bins, float(low), float(high))
    return low.reshape(1), high.reshape(1), counts.cumsum(0).to(torch.int32)


def reference(x, low, high, cumsum, min_percentile, max_percentile, start, end, step, with_offset):
    bins, total = len(cumsum), int(cumsum[-1])
    width = (high - low) / bins
    first = next(i for i in range(bins) if cumsum[i] > (1 - min_percentile) * total)
    last = next(i for i in range(bins) if cumsum[i] >= max_percentile * total)
    best = None
    for k in range(round((end - start) / step) + 1):
        least, greatest = ((low + first * width) * (start + k * step), (low + (last + 1) * width) * (start + k * step))
        if with_offset:
            scale = (greatest.clamp_min(0) - least.clamp_max(0)) / 255
            offset = (-least.clamp_max(0) / scale).round() - 128
        else:
            scale, offset = torch.maximum(least.abs(), greatest.abs()) / 127, torch.zeros(1).double()
        codes = ((x / scale).round() + offset).clamp(-128, 127)
        error = float((((codes - offset) * scale - x) ** 2).sum())
        best = (error, scale, offset) if best is None or error < best[0] else best
    return best[1:]


@pytest.mark.parametrize("with_offset", [False, True])
@pytest.mark.parametrize("percentile", [0.999999, 0.99])
def test_scales_are_those_of_a_stepwise_search(with_offset: bool, percentile: float) -> None:
    x = normal(8, 16, 16)
    x[0, 0, 0] = 9  # an outlier
    for data in (x, x.abs(), (x * 3).half()):
        args = (data, *histogram(data), percentile, percentile, *SEARCH, with_offset)
        check(torch_npu.npu_ifmr, args, reference, whole=True, compiled=data is x)


def test_data_of_zeros_has_a_scale_of_one() -> None:
    zeros = torch.zeros(4)
    counts = torch.full((128,), 4, dtype=torch.int32)
    scale, offset = torch_npu.npu_ifmr(zeros, zeros[:1], zeros[:1], counts, 0.99, 0.99, *SEARCH, False)
    assert (scale.item(), offset.item()) == (1, 0)


def test_empty_searches_and_wrong_sizes_are_refused() -> None:
    x = normal(4)
    low, high, counts = histogram(x)
    text = r"the search goes from 1 to 0.5 by 0.1, allowed are a step over 0"
    check_refused("npu_ifmr", text, x, low, high, counts, 0.9, 0.9, 1.0, 0.5, 0.1, False)
    text = r"data_min has 4 elements and data_max 1, allowed is 1"
    check_refused("npu_ifmr", text, x, x, high, counts, 0.9, 0.9, *SEARCH, False)
    text = r"cumsum has no element"
    check_refused("npu_ifmr", text, x, low, high, counts[:0], 0.9, 0.9, *SEARCH, False)
