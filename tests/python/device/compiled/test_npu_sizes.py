# SPDX-License-Identifier: Apache-2.0
"""Operators whose definitions are not published have sizes and dtypes on meta, and raise an error elsewhere."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.python.device.tensors import tensors

OPS = torch.ops.npu


def meta(*size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(size, dtype=dtype, device="meta")


CALLS = [
    (OPS.npu_apply_adam, (0.9, 0.9, 0.1, 0.9, 0.9, 0.1, meta(2, 3), None, None), [(2, 3)] * 3),
    (OPS.npu_apply_adam_w, (0.9, 0.9, 0.1, 0.1, 0.9, 0.9, 0.1, meta(2, 3), None, None, None), [(2, 3)] * 3),
    (OPS.npu_bert_apply_adam, (0.1, 0.9, 0.9, 0.1, meta(2, 3), 1.0, 1.0, 0.1), [(2, 3)] * 3),
    (OPS._npu_silent_check, (meta(2), meta(1), meta(1), meta(1), meta(1), meta(1), 7, *[1.0] * 4), [(1,)]),
    (OPS._npu_silent_check_v2, (meta(1), meta(2), meta(3), meta(1), 7, *[1.0] * 4, 1), [(1,)]),
    (OPS._npu_silent_check_v3, (meta(1), meta(2), meta(1), meta(1), meta(1), 1.0, 1.0, 0.9, 1), [(1,)]),
    (OPS.obfuscation_calculate, (meta(1, dtype=torch.int32), meta(4, 5), meta(1)), [(4, 5)]),
    (OPS.obfuscation_finalize, (meta(1, dtype=torch.int32),), [(1,)]),
]


@pytest.mark.parametrize(("op", "args", "sizes"), CALLS, ids=[str(op) for op, *_ in CALLS])
def test_operators_give_sizes_on_meta_and_errors_elsewhere(op, args, sizes) -> None:
    assert [tuple(x.shape) for x in tensors(op(*args))] == sizes
    real = [torch.zeros(x.shape, dtype=x.dtype) if isinstance(x, torch.Tensor) else x for x in args]
    with pytest.raises(NotImplementedError):
        op(*real)


def test_obfuscation_begins() -> None:
    with FakeTensorMode():
        fd = OPS.obfuscation_initialize(16, 0, 1)
    assert (fd.shape, fd.dtype, fd.device.type) == ((1,), torch.int32, "npu")
    with pytest.raises(NotImplementedError):
        OPS.obfuscation_initialize(16, 0, 1)
