# SPDX-License-Identifier: Apache-2.0
"""Products of matrices on cpu as npu computes them, for tests that compare the devices to the bit."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tests.python.device.tensors import tensors, to_npu

_aten = torch.ops.aten
# Names of operators that return new tensors.
_FUNCTIONS = {
    "aten::mm",
    "aten::bmm",
    "aten::addmm",
    # torch registers these when they are first called.
    "torch_nn::_linear_cross_entropy_batch_chunked",
    "torch_nn::_linear_cross_entropy_batch_chunked_no_reduction",
}


def _linear_out(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """``linear.out`` of ATen fuses the sum with the bias for matrices alone. Otherwise the product is rounded first."""
    if x.dim() == 2 or bias is None:
        return torch.nn.functional.linear(x, weight, bias)
    return torch.nn.functional.linear(x, weight) + bias


# Operators that write an argument, and functions that return the same.
_WRITING = {
    _aten.mm.out: _aten.mm.default,
    _aten.bmm.out: _aten.bmm.default,
    _aten.addmm.out: _aten.addmm.default,
    _aten.addmm_.default: _aten.addmm.default,
    _aten.linear.out: _linear_out,
}


class ProductsOfNpu(TorchDispatchMode):
    """Context manager: products of cpu tensors are those of npu, whose sums are in another order than ATen's. Both
    devices run the same kernels for all else, so that results of operators and models have the same bits in it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out, factors = kwargs.get("out"), {name: value for name, value in kwargs.items() if name != "out"}
        product = func if func.name() in _FUNCTIONS else _WRITING.get(func)
        if product is None or not all(x.is_cpu for x in tensors((args, kwargs))):
            return func(*args, **kwargs)
        moved = to_npu((args, factors))
        result = func(*args, **kwargs)  # also raises what ATen raises, and resizes `out`
        value = pytree.tree_map_only(torch.Tensor, torch.Tensor.cpu, product(*moved[0], **moved[1]))
        return value if func is product else result.copy_(value) if out is None else out.copy_(value)
