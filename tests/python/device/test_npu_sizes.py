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
    (OPS.attention_worker_scheduler, (meta(9, dtype=torch.int8),), [(9,)]),
    (OPS.ffn_worker_scheduler, (meta(9, dtype=torch.int8),), [(9,)]),
    (
        OPS.npu_attention_worker_combine,
        (meta(9, dtype=torch.int8), meta(3, 2), meta(1, dtype=torch.int32), 16),
        [(3, 16), (1,)],
    ),
    (OPS.stft_backward, (meta(5, 9, dtype=torch.complex64), meta(32), 8), [(32,)]),
]


@pytest.mark.parametrize(("op", "args", "sizes"), CALLS, ids=[str(op) for op, *_ in CALLS])
def test_sizes(op, args, sizes) -> None:
    assert [tuple(x.shape) for x in tensors(op(*args))] == sizes
    real = [torch.zeros(x.shape, dtype=x.dtype) if isinstance(x, torch.Tensor) else x for x in args]
    with pytest.raises(NotImplementedError):
        op(*real)


def test_types() -> None:
    args = (*CALLS[2][1],)
    for code, dtype in enumerate((torch.float16, torch.bfloat16)):
        assert [x.dtype for x in OPS.npu_attention_worker_combine(*args, token_dtype=code)] == [dtype, torch.int32]
