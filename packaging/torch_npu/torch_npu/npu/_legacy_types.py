# SPDX-License-Identifier: Apache-2.0
"""Classes of storages and tensors such as ``torch.npu.FloatStorage`` and ``torch.npu.FloatTensor``."""

from __future__ import annotations

import torch
from torch.storage import _LegacyStorage

_TYPES = {
    "Bool": torch.bool,
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Short": torch.int16,
    "Int": torch.int32,
    "Long": torch.int64,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Float": torch.float32,
    "Double": torch.float64,
}
# torch reads the device of a storage class from the name of its module.
_MODULE = "torch_npu.npu"


class _NPULegacyStorage(_LegacyStorage):
    @classmethod
    def from_buffer(cls, *args, **kwargs):
        raise RuntimeError(f"from_buffer: not available for storages of npu ({cls.__name__})")

    @classmethod
    def _new_with_weak_ptr(cls, *args, **kwargs):
        raise RuntimeError(f"_new_with_weak_ptr: not available for storages of npu ({cls.__name__})")


class _TensorType(type):
    """The type of a class that has no objects of its own. Calling that class makes a tensor of npu, and isinstance()
    accepts such tensors."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Tensor) and instance.is_npu and instance.dtype == cls.dtype

    def __call__(cls, *args, **kwargs) -> torch.Tensor:
        if len(args) == 1 and not isinstance(args[0], int | torch.Size | torch.Tensor):
            return torch.tensor(args[0], dtype=cls.dtype, device="npu", **kwargs)
        return torch.empty(0, dtype=cls.dtype, device="npu").new(*args, **kwargs)


class _Type:
    """An attribute with the type of a storage's elements, for the class and for its objects."""

    def __init__(self, dtype: torch.dtype):
        self._dtype = dtype

    def __get__(self, instance: object, owner: type) -> torch.dtype:
        return self._dtype


def storages() -> dict[str, type]:
    """Returns the classes of storages by name."""
    made = {}
    for name, dtype in _TYPES.items():
        fields = {"__module__": _MODULE, "__doc__": f"Storages of npu of {dtype}.", "dtype": _Type(dtype)}
        made[f"{name}Storage"] = type(f"{name}Storage", (_NPULegacyStorage,), fields | {"_dtype": _Type(dtype)})
    return made


def tensors() -> dict[str, type]:
    """Returns the classes of tensors by name."""
    made = {}
    for name, dtype in _TYPES.items():
        fields = {"__module__": _MODULE, "__doc__": f"Tensors of npu of {dtype}.", "dtype": dtype}
        # Tensor.type() reads the name of the class.
        made[f"{name}Tensor"] = _TensorType(f"torch.npu.{name}Tensor", (), fields)
    return made


def dtype_of_type(kind: object) -> torch.dtype | None:
    """Returns the element type of ``torch.npu.FloatTensor`` or ``"torch.npu.FloatTensor"``, or None for anything
    else."""
    if isinstance(kind, str):
        found = _TYPES.get(kind.removeprefix("torch.npu.").removesuffix("Tensor"))
        return found if kind.startswith("torch.npu.") and kind.endswith("Tensor") else None
    return kind.dtype if isinstance(kind, _TensorType) else None
