# SPDX-License-Identifier: Apache-2.0
"""Operators of vLLM and vllm-ascend as what they are made of, so that the compiler sees products and not calls.

Both define operators to hide code from torch.compile. Eager calls still take the kernels that they registered.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.nn import functional

_library = torch.library.Library("vllm", "FRAGMENT")


def install() -> None:
    """Registers the decompositions of operators that exist, and of others when they are defined. A second call does
    nothing."""
    from vllm.utils import torch_utils

    define = torch_utils.direct_register_custom_op
    if getattr(define, "_decomposes", False):
        return

    @functools.wraps(define)
    def direct_register_custom_op(op_name: str, *args: Any, **kwargs: Any) -> None:
        define(op_name, *args, **kwargs)
        _register(op_name)

    direct_register_custom_op._decomposes = True
    torch_utils.direct_register_custom_op = direct_register_custom_op
    for name in _PARTS:
        if hasattr(torch.ops.vllm, name):
            _register(name)


def _register(name: str) -> None:
    if name in _PARTS:
        _library.impl(name, _PARTS[name], "CompositeImplicitAutograd")


def _unquantized_gemm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    return functional.linear(x, weight, bias)


_PARTS = {"unquantized_gemm": _unquantized_gemm}
