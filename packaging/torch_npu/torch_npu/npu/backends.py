# SPDX-License-Identifier: Apache-2.0
"""``torch.npu.config``, ``torch.npu.matmul`` and ``torch.npu.conv``: switches that scripts set."""

from __future__ import annotations

import enum

from npugraph import _ascend as _device


class CubeMathType(enum.IntEnum):
    """Ways in which an NPU's matrix units may round. They have no effect here: products are those of the CPU."""

    KEEP_DTYPE = 0
    ALLOW_FP32_DOWN_PRECISION = 1
    USE_FP16 = 2
    USE_HF32 = 3


def _checked_bool(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} takes a bool, got {value!r}")
    return value


class _Config:
    """``torch.npu.config``."""

    @property
    def allow_internal_format(self) -> bool:
        """Whether tensors may have formats that only an NPU's kernels know, such as FRACTAL_NZ; False at first."""
        return _device.internal_formats_allowed()

    @allow_internal_format.setter
    def allow_internal_format(self, value: bool) -> None:
        _device.allow_internal_formats(_checked_bool("torch.npu.config.allow_internal_format", value))


class _Precision:
    """Whether float32 may be computed in hf32. The value is kept and has no effect: float32 stays float32."""

    def __init__(self, name: str, allow_hf32: bool):
        self._name = name
        self._allow_hf32 = allow_hf32

    @property
    def allow_hf32(self) -> bool:
        return self._allow_hf32

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        self._allow_hf32 = _checked_bool(f"{self._name}.allow_hf32", value)


class _Matmul(_Precision):
    """``torch.npu.matmul``."""

    def __init__(self) -> None:
        super().__init__("torch.npu.matmul", False)
        self._cube_math_type = CubeMathType.KEEP_DTYPE

    @property
    def cube_math_type(self) -> CubeMathType:
        """The value is kept and has no effect."""
        return self._cube_math_type

    @cube_math_type.setter
    def cube_math_type(self, value: int) -> None:
        self._cube_math_type = CubeMathType(value)


config = _Config()
matmul = _Matmul()
conv = _Precision("torch.npu.conv", True)
