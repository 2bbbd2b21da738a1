# SPDX-License-Identifier: Apache-2.0
"""Operators of src/torch/npu_ops/detection_sizes.cc: sizes and types on meta, and an error elsewhere."""

from __future__ import annotations

import pytest
import torch

from tests.python.device.npu_operators import tensors

OPS = torch.ops.npu


def meta(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(size, dtype=dtype, device="meta")


CALLS = [
    (OPS.stft_backward, (meta(5, 9, dtype=torch.complex64), meta(32), 8), [(32,)]),
]


@pytest.mark.parametrize(("op", "args", "sizes"), CALLS, ids=[str(op) for op, *_ in CALLS])
def test_sizes(op, args, sizes) -> None:
    assert [tuple(x.shape) for x in tensors(op(*args))] == sizes
    real = [torch.zeros(x.shape, dtype=x.dtype) if isinstance(x, torch.Tensor) else x for x in args]
    with pytest.raises(NotImplementedError):
        op(*real)
