# SPDX-License-Identifier: Apache-2.0
"""HiFloat8: numbers of eight bits whose precision tapers off.

The bits, their values and the rounding are those of "Ascend HiFloat8 Format for Deep Learning", 2024, arXiv 2409.16626.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.utils import _pytree as pytree

__all__ = ["HiFloat8Tensor"]

_SIGN = 0x80
_NAN = 0x80  # the code of a zero with a sign
_INFINITY = 0x6F
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _magnitude(code: int) -> float:
    """Returns the number that the seven lower bits stand for. They are a prefix, which tells how many bits the exponent
    has, then the exponent (a sign, and the digits behind a leading one), then the rest of the significand."""
    for prefix, width, digits in ((0b11, 2, 4), (0b10, 2, 3), (0b01, 2, 2), (0b001, 3, 1), (0b0001, 4, 0)):
        if code >> (7 - width) != prefix:
            continue
        fraction = 7 - width - digits
        field = code >> fraction & ((1 << digits) - 1)
        exponent = 0
        if digits:
            leading = 1 << (digits - 1)
            exponent = (leading | (field & (leading - 1))) * (-1 if field & leading else 1)
        return (1 + (code & ((1 << fraction) - 1)) / (1 << fraction)) * 2.0**exponent
    return 2.0 ** (code - 23) if code else 0.0  # the prefix 0000 has powers of two only


_VALUES = [_magnitude(code) for code in range(_INFINITY)]
_VALUES += [float("inf"), *(_magnitude(code) for code in range(_INFINITY + 1, _SIGN))]
_DECODED = [*_VALUES, *(-value for value in _VALUES)]
_DECODED[_NAN] = float("nan")
_IN_ORDER = sorted(range(_SIGN), key=_VALUES.__getitem__)
# A number is rounded to the next magnitude from the middle between the two on. Infinity counts as 1.5 * 2^15.
_FINITE = [*sorted(_VALUES)[:-1], 1.5 * 2.0**15]
_HALFWAY = [(one + other) / 2 for one, other in itertools.pairwise(_FINITE)]


def _encode(x: torch.Tensor) -> torch.Tensor:
    exact = x if x.dtype == torch.float64 else x.float()
    halfway = torch.tensor(_HALFWAY, dtype=exact.dtype, device=x.device)
    codes = torch.tensor(_IN_ORDER, dtype=torch.uint8, device=x.device)[
        torch.bucketize(exact.abs(), halfway, right=True)
    ]
    is_negative = (exact < 0) & (codes > 0)
    return torch.where(exact.isnan(), _NAN, codes | torch.where(is_negative, _SIGN, 0).to(torch.uint8)).to(torch.uint8)


def _decode(data: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor(_DECODED, dtype=dtype, device=data.device)[data.int()]


class _Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> HiFloat8Tensor:
        return HiFloat8Tensor(data=_encode(x), dtype=x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: HiFloat8Tensor, dtype: torch.dtype) -> torch.Tensor:
        ctx.dtype = x.dtype
        return _decode(x._data, dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        return grad.to(ctx.dtype), None


class HiFloat8Tensor(torch.Tensor):
    """A tensor of ``dtype`` whose elements are kept in eight bits, as HiFloat8.

    Operators read its values and return plain tensors. Values that are written into it are rounded, half away from
    zero, and to infinity from 1.25 * 2^15 on. Views, and copies on other devices, keep their eight bits. Gradients pass
    through the rounding unchanged. Raises TypeError for other types than the following.

    Args:
        data: the bits, of type uint8.
        dtype: the type that the tensor has for operators: float16, bfloat16, float32 or float64.
    """

    _data: torch.Tensor

    @staticmethod
    def __new__(cls, *, data: torch.Tensor, dtype: torch.dtype = torch.float32) -> HiFloat8Tensor:
        if data.dtype != torch.uint8:
            raise TypeError(f"HiFloat8Tensor: data is of {data.dtype}, and must be of torch.uint8")
        _check_type("HiFloat8Tensor", dtype)
        self = torch.Tensor._make_wrapper_subclass(
            cls, data.size(), data.stride(), data.storage_offset(), dtype=dtype, device=data.device
        )
        self._data = data
        return self

    @classmethod
    def to_hifloat8(cls, tensor: torch.Tensor) -> HiFloat8Tensor:
        """Returns ``tensor``, rounded. Raises TypeError unless it is float16, bfloat16, float32 or float64."""
        _check_type("HiFloat8Tensor.to_hifloat8", tensor.dtype)
        return tensor if isinstance(tensor, cls) else _Round.apply(tensor)

    def from_hifloat8(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Returns the values as a plain tensor of ``dtype``, by default of the type of this tensor."""
        return _Read.apply(self, self.dtype if dtype is None else dtype)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"HiFloat8Tensor({_decode(self._data, self.dtype)!r})"

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuild, (self._data, self.dtype, self.requires_grad)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _keeps_bits(func, args, kwargs):
            data = func(args[0]._data, *args[1:], **{name: value for name, value in kwargs.items() if name != "dtype"})
            return pytree.tree_map_only(torch.Tensor, lambda bits: cls(data=bits, dtype=args[0].dtype), data)
        plain: dict[int, torch.Tensor] = {}  # values of each HiFloat8Tensor, by its id, decoded once

        def read(x: HiFloat8Tensor) -> torch.Tensor:
            return plain.setdefault(id(x), _decode(x._data, x.dtype))

        result = func(*pytree.tree_map_only(cls, read, args), **pytree.tree_map_only(cls, read, kwargs))
        for written in _written(func, args, kwargs):
            written._data.copy_(_encode(plain[id(written)]))
            result = pytree.tree_map(lambda one, w=written: w if one is plain[id(w)] else one, result)
        return result


def _check_type(call: str, dtype: torch.dtype) -> None:
    if dtype not in _FLOATS:
        raise TypeError(f"{call}: {dtype} is none of {', '.join(map(str, _FLOATS))}")


def _rebuild(data: torch.Tensor, dtype: torch.dtype, requires_grad: bool) -> HiFloat8Tensor:
    return HiFloat8Tensor(data=data, dtype=dtype).requires_grad_(requires_grad)


_COPIES = (torch.ops.aten.clone, torch.ops.aten.detach, torch.ops.aten.alias)


def _keeps_bits(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if not args or not isinstance(args[0], HiFloat8Tensor):
        return False
    if func.overloadpacket is torch.ops.aten._to_copy:
        return kwargs.get("dtype") in (None, args[0].dtype)
    return func.overloadpacket in _COPIES or (func.is_view and func is not torch.ops.aten.view.dtype)


def _written(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[HiFloat8Tensor]:
    given = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
    names = [a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    return [one for name in names for one in pytree.tree_leaves(given.get(name)) if isinstance(one, HiFloat8Tensor)]
