# SPDX-License-Identifier: Apache-2.0
"""Samples for tests of operators, as functions that torch's ``OpInfo`` takes (``sample_inputs_func``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.testing import make_tensor
from torch.testing._internal.opinfo.core import SampleInput


def sample_inputs_normal_tensor_second(
    self: Any, device: str, dtype: torch.dtype, requires_grad: bool, **kwargs: Any
) -> Iterator[SampleInput]:
    """Yields samples of ``torch.normal`` whose deviations are a tensor and whose mean is a number or a tensor."""
    for shape in ((), (5,), (4, 3), (2, 0)):
        deviations = make_tensor(shape, device=device, dtype=dtype, low=0.1, high=3)
        yield SampleInput(1.6, args=(deviations,))
        means = make_tensor(shape, device=device, dtype=dtype, requires_grad=requires_grad)
        yield SampleInput(means, args=(deviations,))


def sample_inputs_median_custom(
    self: Any, device: str, dtype: torch.dtype, requires_grad: bool, **kwargs: Any
) -> Iterator[SampleInput]:
    """Yields samples of ``torch.median`` without equal elements, because its index could be that of any of them."""
    for shape, dim in (((), 0), ((5,), 0), ((4, 3), 1), ((2, 5, 3), -2)):
        count = torch.Size(shape).numel()
        for args in ((), (dim, False), (dim, True)):
            values = torch.randperm(count).reshape(shape).to(device, dtype)
            yield SampleInput(values.requires_grad_(requires_grad), args=args)
