# SPDX-License-Identifier: Apache-2.0
"""Operators of src/torch/npu_ops/detection_sizes.cc: sizes and types on meta, and an error elsewhere."""

from __future__ import annotations

import pytest
import torch

from tests.python.device.npu_operators import tensors

OPS = torch.ops.npu
SIZES = ([3, 3], [1, 1, 2, 2], [1, 1, 1, 1], [1, 1, 1, 1])  # kernel, stride, padding, dilation of a convolution


def meta(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(size, dtype=dtype, device="meta")


CALLS = [
    (OPS.npu_giou_backward, (meta(4, 1), meta(4, 4), meta(4, 4)), [(4, 4), (4, 4)]),
    (OPS.npu_diou_backward, (meta(1, 5), meta(4, 5), meta(4, 5)), [(4, 5), (4, 5)]),
    (OPS.npu_ciou_backward, (meta(1, 5), meta(4, 5), meta(4, 5), None), [(4, 5), (4, 5)]),
    (
        OPS.npu_deformable_conv2d,
        (meta(2, 4, 8, 10), meta(6, 4, 3, 3), meta(2, 27, 4, 5), None, *SIZES),
        [(2, 6, 4, 5), (2, 4, 12, 15)],
    ),
    (
        OPS.npu_deformable_conv2dbk,
        (meta(2, 4, 8, 10), meta(2, 6, 4, 5), meta(2, 4, 12, 15), meta(6, 4, 3, 3), meta(2, 27, 4, 5), *SIZES),
        [(2, 4, 8, 10), (6, 4, 3, 3), (2, 27, 4, 5), (6,)],
    ),
    (OPS.npu_rotated_box_decode, (meta(2, 5, 7), meta(2, 5, 7), meta(5)), [(2, 5, 7)]),
    (OPS.npu_rotated_box_encode, (meta(2, 5, 7), meta(2, 5, 7), meta(5)), [(2, 5, 7)]),
    (OPS.npu_rotated_iou, (meta(2, 7, 5), meta(2, 3, 5)), [(2, 7, 3)]),
    (OPS.npu_rotated_overlaps, (meta(2, 5, 7), meta(2, 5, 3), True), [(2, 7, 3)]),
    (OPS.npu_ps_roi_pooling, (meta(1, 18, 7, 7), meta(2, 5, 4), 0.5, 3, 2), [(8, 2, 3, 3)]),
    (OPS.npu_ps_roi_pooling_backward, (meta(8, 2, 3, 3), meta(2, 5, 4), 0.5, 3, 2, [7, 7]), [(2, 18, 7, 7)]),
    (OPS.npu_batch_nms, (meta(2, 9, 1, 4), meta(2, 9, 3), 0.1, 0.5, 3, 4), [(2, 4, 4), (2, 4), (2, 4), (2,)]),
    (OPS.npu_yolo_boxes_encode, (meta(6, 4), meta(6, 4), meta(6, dtype=torch.int32)), [(6, 4)]),
    (OPS.npu_sub_sample, (meta(6, dtype=torch.int32), 3, 0.5), [(6,)]),
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
    assert [x.dtype for x in tensors(OPS.npu_batch_nms(*CALLS[11][1]))] == [torch.float32] * 3 + [torch.int32]
    args = (*CALLS[16][1],)
    for code, dtype in enumerate((torch.float16, torch.bfloat16)):
        assert [x.dtype for x in OPS.npu_attention_worker_combine(*args, token_dtype=code)] == [dtype, torch.int32]
