# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators and losses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
import torch._inductor.inductor_prims  # registers prims.fma

from tests.python.operator_calls import Call

aten = torch.ops.aten
prims = torch.ops.prims

MEAN = 1
SUM = 2


def calls() -> Iterator[Call]:
    yield from _one_operand()
    yield from _scalar_operands()
    yield from _two_operands()
    yield from _other_element_types()
    yield from _gradients()
    yield from _gates()
    yield from _losses()
    yield from _masks()


def _tensors(dtype: torch.dtype = torch.float32) -> Iterator[torch.Tensor]:
    """Yields one operand of each layout."""
    image = torch.ones(2, 3, 4, 5, dtype=dtype)
    yield torch.ones((), dtype=dtype)
    yield torch.ones(0, 4, dtype=dtype)
    yield image.permute(2, 0, 3, 1)
    yield image.contiguous(memory_format=torch.channels_last)
    yield image[:, :, ::2, 1:]
    yield image[:, :1].expand(2, 3, 4, 5)


def _in_two_layouts() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    image = torch.ones(2, 3, 4, 5)
    last = image.contiguous(memory_format=torch.channels_last)
    yield image, last
    yield last, image
    yield image.transpose(0, 3), image.new_ones(5, 3, 4, 2)
    yield image[:, :, ::2], last[:, :, ::2]


def _broadcast() -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    image = torch.ones(2, 3, 4, 5)
    yield image, image.new_ones(4, 5)
    yield image.new_ones(3, 1, 1), image.contiguous(memory_format=torch.channels_last)
    yield image.new_ones(4, 1), image.new_ones(2, 1, 5).transpose(0, 2)
    yield image, image.new_ones(())


def _one_operand() -> Iterator[Call]:
    functions = (aten.neg, aten.abs, aten.exp, aten.isnan, aten.logical_not, aten.conj_physical, aten.angle, aten.zero)
    functions += (aten.softshrink, aten.hardshrink, aten.square)
    for tensor in _tensors():
        for function in functions:
            yield function.default, (tensor,), {}
        yield aten.frexp.Tensor, (tensor,), {}
        yield aten.polygamma.default, (1, tensor), {}
        yield aten.mvlgamma.default, (tensor + 3, 2), {}
        yield aten.hardshrink.default, (tensor, 0.25), {}
        yield prims.convert_element_type.default, (tensor, torch.int64), {}
        yield aten.fill.Tensor, (tensor, torch.tensor(2)), {}
    # Fake tensors keep other strides, where eager on the CPU makes both results row-major.
    for tensor in (torch.ones(()), torch.ones(0, 4), torch.ones(3, 4), torch.ones(3, 4, dtype=torch.bfloat16)[:, ::2]):
        yield aten.log_sigmoid_forward.default, (tensor,), {}
    half = torch.ones(3, 4, dtype=torch.bfloat16).t()
    for function in functions:
        yield function.default, (half,), {}
    yield prims.convert_element_type.default, (half, torch.float32), {}
    yield aten.frexp.Tensor, (half,), {}
    yield aten.polygamma.default, (0, half), {}
    yield aten.mvlgamma.default, (torch.full((4, 3), 5), 2), {}


def _scalar_operands() -> Iterator[Call]:
    numbers = torch.ones(3, 4, dtype=torch.int64).t()
    for name in ("and", "or", "xor"):
        for tensor in (numbers, numbers.bool()):
            yield getattr(aten, f"bitwise_{name}").Scalar, (tensor, 3), {}
            yield getattr(aten, f"bitwise_{name}").Scalar_Tensor, (True, tensor), {}
    for shift in (aten.bitwise_left_shift, aten.bitwise_right_shift):
        for tensor in (numbers, numbers.to(torch.uint8)):
            yield shift.Tensor_Scalar, (tensor, 2), {}
            yield shift.Scalar_Tensor, (2, tensor), {}
    for tensor in (torch.ones(()), torch.ones(2, 3, 4).transpose(0, 2), torch.ones(4, 6)[:, ::2].bfloat16(), numbers):
        yield aten.clamp_max.default, (tensor, 2), {}
        yield aten.clamp_min.default, (tensor, 0.5), {}
        yield aten.copysign.Scalar, (tensor, -1.0), {}
        yield aten.div.Scalar_mode, (tensor, 2), {"rounding_mode": "floor"}
        yield aten.div.Scalar_mode, (tensor, 2), {"rounding_mode": None}
        yield aten.floor_divide.Scalar, (tensor, 2), {}
        yield aten.fmod.Scalar, (tensor, 2.5), {}
        yield aten.remainder.Scalar_Tensor, (7, tensor), {}
        yield aten.xlogy.Scalar_Other, (tensor, 2), {}
        yield aten.xlogy.Scalar_Self, (2, tensor), {}
        # Fake tensors keep other strides, where eager makes a row-major result.
        yield aten.pow.Scalar, (2, tensor.contiguous()), {}


def _two_operands() -> Iterator[Call]:
    for a, b in (*((x, x) for x in _tensors()), *_in_two_layouts(), *_broadcast()):
        for function in (aten.add.Tensor, aten.eq.Tensor, aten.div.Tensor, aten.complex.default, aten.polar.default):
            yield function, (a, b), {}
        yield aten.lerp.Tensor, (a, b, a), {}
        yield aten.where.self, (a > 0, a, b), {}
        yield aten.masked_fill.Scalar, (a, b > 0, 2), {}
        yield aten.masked_fill.Tensor, (a, b > 0, torch.tensor(2.0)), {}
        yield aten.addcmul.default, (a, b, a), {"value": 2}
        yield prims.fma.default, (a, b, a), {}


def _other_element_types() -> Iterator[Call]:
    types = (torch.bool, torch.uint8, torch.int8, torch.int64, torch.bfloat16, torch.float16, torch.float32)
    types += (torch.float64, torch.complex64)
    for one, other in itertools.product(types, types):
        a, b = torch.ones(3, 4).to(one), torch.ones(3, 4).to(other)
        yield aten.mul.Tensor, (a, b), {}
        yield aten.mul.Tensor, (a, b.new_ones(())), {}
        yield aten.div.Tensor, (a, b), {}
    for dtype in types:
        a = torch.ones(3, 4).to(dtype)
        for number in (True, 2, 2.5, 2j):
            yield aten.add.Scalar, (a, number), {}
            yield aten.where.ScalarOther, (a == a, a, number), {}
            yield aten.where.ScalarSelf, (a == a, number, a), {}
        for function in (aten.angle, aten.exp, aten.sgn, aten.isnan, aten.conj_physical):
            yield function.default, (a,), {}
    # Fake tensors keep other strides in the angle of complex numbers, where eager makes a row-major result.
    yield aten.abs.default, (torch.ones(3, 4, dtype=torch.complex64).t(),), {}
    yield aten.abs.default, (torch.ones(3, 4, dtype=torch.complex128)[:, ::2],), {}
    yield aten.complex.default, (torch.ones(3, dtype=torch.float64), torch.ones(2, 1, dtype=torch.float64)), {}
    yield aten.complex.default, (torch.ones(3, dtype=torch.float16), torch.ones((), dtype=torch.float16)), {}
    yield aten.polar.default, (torch.ones(3, dtype=torch.float64), torch.ones(2, 1, dtype=torch.float64)), {}


# Gradients of elementwise functions: the operator, and its arguments after the two tensors.
_Gradients = tuple[tuple[Any, tuple[Any, ...]], ...]

_GRADIENTS: _Gradients = (
    (aten.gelu_backward, ()),
    (aten.silu_backward, ()),
    (aten.tanh_backward, ()),
    (aten.sigmoid_backward, ()),
    (aten.mish_backward, ()),
    (aten.softshrink_backward, (0.5,)),
    (aten.hardshrink_backward, (0.5,)),
)

# Fake tensors let the second tensor decide on the layout, and eager the first.
_OF_ONE_LAYOUT: _Gradients = (
    (aten.threshold_backward, (0.5,)),
    (aten.hardtanh_backward, (-1, 1)),
    (aten.leaky_relu_backward, (0.1, False)),
    (aten.softplus_backward, (1, 20)),
    (aten.hardswish_backward, ()),
    (aten.hardsigmoid_backward, ()),
    (aten.logit_backward, (0.1,)),
)


def _gradients() -> Iterator[Call]:
    half = torch.ones(3, 4, dtype=torch.bfloat16).t()
    same = [*((x, x) for x in _tensors()), (half, half)]
    for gradient, value in same:
        for function, rest in (*_GRADIENTS, *_OF_ONE_LAYOUT):
            yield function.default, (gradient, value, *rest), {}
        yield aten.elu_backward.default, (gradient, 1.0, 1, 1, False, value), {}
    for gradient, value in _in_two_layouts():
        for function, rest in _GRADIENTS:
            yield function.default, (gradient, value, *rest), {}
    yield aten.gelu_backward.default, same[2], {"approximate": "tanh"}
    yield aten.logit_backward.default, same[2], {}


def _gates() -> Iterator[Call]:
    image = torch.ones(4, 4, 6, 8)
    last = image.contiguous(memory_format=torch.channels_last)
    for tensor in (image, last, image.permute(2, 0, 3, 1), image[:, :, :, ::2], image.bfloat16(), image[:0]):
        for dim in (-1, 0, 1):
            yield aten.glu.default, (tensor, dim), {}
        yield aten.log_sigmoid_backward.default, (tensor, tensor, tensor), {}
    yield aten.glu.default, (image,), {}
    # Fake tensors keep channels last, where eager makes a row-major result.
    for tensor, dim in itertools.product((image, image.bfloat16(), image.transpose(0, 3)), (-1, 0, 1)):
        yield _glu_backward, (tensor, dim), {}


def _glu_backward(gradient: torch.Tensor, dim: int) -> None:
    # The concatenation makes the size even. A size that may be odd would need a guard.
    aten.glu_backward(gradient, torch.cat([gradient, gradient], dim), dim)


def _losses() -> Iterator[Call]:
    image = torch.ones(2, 3, 4, 5)
    half = torch.ones(3, 4, dtype=torch.bfloat16)
    for reduction, (a, b) in itertools.product((0, MEAN, SUM), (*_in_two_layouts(), *_broadcast(), (half, half))):
        yield aten.mse_loss.default, (a, b, reduction), {}
        yield aten.smooth_l1_loss.default, (a, b, reduction, 0.5), {}
        yield aten.huber_loss.default, (a, b, reduction), {}
    # Fake tensors keep the layout of the tensors in gradients, where eager makes a row-major result.
    for reduction, a in itertools.product((0, MEAN, SUM), (image, half, image[:, :, ::2])):
        gradient = a if reduction == 0 else a.new_ones(())
        yield aten.mse_loss_backward.default, (gradient, a, a, reduction), {}
        yield aten.smooth_l1_loss_backward.default, (gradient, a, a, reduction, 0.5), {}
        yield aten.huber_loss_backward.default, (gradient, a, a, reduction, 0.5), {}
    # Fake tensors let another tensor decide on the layout, and broadcast both, which eager refuses.
    for reduction, a in itertools.product((0, MEAN, SUM), (*_tensors(), half.t())):
        gradient = a if reduction == 0 else a.new_ones(())
        yield aten.binary_cross_entropy.default, (a, a, None, reduction), {}
        yield aten.binary_cross_entropy_with_logits.default, (a, a, None, None, reduction), {}
        yield aten.binary_cross_entropy_backward.default, (gradient, a, a, None, reduction), {}
    weight = torch.ones(4, 5)
    for reduction in (0, MEAN):
        yield aten.binary_cross_entropy.default, (image, image, weight, reduction), {}
        yield aten.binary_cross_entropy_backward.default, (image, image, image, weight, reduction), {}
        yield aten.binary_cross_entropy_with_logits.default, (image, image, weight, weight, reduction), {}
    yield aten.binary_cross_entropy_with_logits.default, (image, image), {}
    yield aten.mse_loss.default, (image, image.double(), 0), {}


def _masks() -> Iterator[Call]:
    image = torch.ones(2, 3, 4, 5, dtype=torch.bfloat16)
    mask = torch.ones(2, 3, 4, 5, dtype=torch.bool)
    yield aten.where.Scalar, (mask, 1, 2), {}
    yield aten.where.Scalar, (mask.transpose(0, 2), 1, True), {}
    yield aten.where.self, (mask[0, 0], image.transpose(2, 3).transpose(2, 3), image.new_ones(5)), {}
    # Fake tensors make a row-major result, where eager keeps the layout.
    yield aten.native_dropout_backward.default, (image, mask, 2.0), {}
    yield aten.native_dropout_backward.default, (image.float(), mask, 2.0), {}
