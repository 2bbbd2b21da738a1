# SPDX-License-Identifier: Apache-2.0
"""Calls of ATen operators that npu computes by means of other operators, because cpu has no kernel or refuses the call.

The kernel of npu (src/device/eager) decides which operators these are. It takes fake tensors in such calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten

_PROMOTED = {torch.float16, torch.bfloat16, torch.float32, torch.float64}


def _are_of_several_floats(tensors: Sequence[torch.Tensor]) -> bool:
    types = {tensor.dtype for tensor in tensors}
    return len(types) > 1 and types <= _PROMOTED


def _is_counted_in_integers(tensors: Sequence[torch.Tensor]) -> bool:
    return not tensors[0].is_floating_point() and tensors[0].dtype != torch.bool


_PRODUCTS = (aten.mm, aten.addmm, aten.bmm, aten.baddbmm, aten.mv, aten.dot, aten.vdot)
# Operators that only accelerators dispatch.
_OF_ACCELERATORS = (
    *(aten._thnn_fused_lstm_cell, aten._thnn_fused_lstm_cell_backward_impl),
    *(aten._thnn_fused_gru_cell, aten._thnn_fused_gru_cell_backward),
    *(aten.batch_norm_stats, aten.batch_norm_elemt, aten.batch_norm_backward_reduce, aten.batch_norm_backward_elemt),
    aten.matmul_backward,
)
# From each operator to a test of its tensors: whether npu computes a call with tensors of npu by means of others.
OPERATORS: dict[Any, Callable[[Sequence[torch.Tensor]], bool]] = {
    **{op.default: _are_of_several_floats for op in _PRODUCTS},
    aten.histc.default: _is_counted_in_integers,
    **{op.default: lambda _: True for op in _OF_ACCELERATORS},
}


def is_made_of_others(operator: Any, args: Sequence[Any]) -> bool:
    """Whether npu computes ``operator(*args)`` by means of other operators."""
    rule = OPERATORS.get(operator)
    if rule is None:
        return False
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    return any(tensor.device.type == "npu" for tensor in tensors) and rule(tensors)


def call(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls the kernel of npu for ``operator(*args, **kwargs)``, under the modes that are active."""
    return operator._op_dk(torch._C.DispatchKey.PrivateUse1, *args, **kwargs)
