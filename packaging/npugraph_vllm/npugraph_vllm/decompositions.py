# SPDX-License-Identifier: Apache-2.0
"""Operators of vLLM and vllm-ascend as what they are made of, so that the compiler sees products and not calls.

Both define operators to hide code from torch.compile. Eager calls, which latent attention and experts make in captured
steps, take the kernels that they registered, except for those of ``_KERNELS``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

_collectives = torch.ops._c10d_functional
_library = torch.library.Library("vllm", "FRAGMENT")


def install() -> None:
    """Registers the decompositions of operators that exist, and of others when they are defined."""
    from vllm.utils import torch_utils

    define = torch_utils.direct_register_custom_op

    @functools.wraps(define)
    def direct_register_custom_op(op_name: str, op_func: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        define(op_name, _KERNELS.get(op_name, op_func), *args, **kwargs)
        if op_name in _PARTS:
            _register(op_name, _PARTS[op_name])
        elif op_name in _DECIDED:
            define(f"{op_name}_whole", _pure(op_func), *args, **kwargs)
            whole = getattr(torch.ops.vllm, f"{op_name}_whole")
            _register(op_name, functools.partial(_DECIDED[op_name], whole))

    torch_utils.direct_register_custom_op = direct_register_custom_op
    for name in _PARTS:
        if hasattr(torch.ops.vllm, name):
            _register(name, _PARTS[name])


def _pure(kernel: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``kernel`` without what its schema denies: that it writes its first argument, and that it returns it."""

    @functools.wraps(kernel)
    def pure(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return kernel(tensor.clone(), *args, **kwargs)

    return pure


def _register(name: str, parts: Callable[..., Any]) -> None:
    _library.impl(name, parts, "CompositeImplicitAutograd")


def _unquantized_gemm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    return torch.ops.npu.npu_linear(x, weight, bias)  # a generated product, in graphs and in eager calls


def _rotary_embedding(*args: Any) -> tuple[torch.Tensor, torch.Tensor]:
    from vllm_ascend.ops.rotary_embedding import rope_forward_oot

    return rope_forward_oot(*args)


def _all_reduce(tensor: torch.Tensor, group_name: str) -> torch.Tensor:
    """A collective of the graph. vLLM's own kernel writes the sum into its argument, which the schema does not say."""
    from vllm.distributed import parallel_state

    group = parallel_state._groups[group_name]()
    if group is None:
        raise ValueError(f"vllm::all_reduce: the group {group_name!r} has been destroyed")
    return _sum(tensor, group)


def _sum(tensor: torch.Tensor, group: Any) -> torch.Tensor:
    """The sum over the ranks of a ``GroupCoordinator``."""
    if group.world_size == 1:
        return tensor
    return _collectives.wait_tensor(_collectives.all_reduce(tensor, "sum", group.device_group.group_name))


def _pad_and_reduce(whole: Any, x: torch.Tensor, *is_ep_comm: bool) -> torch.Tensor:
    """A sum over the ranks, unless sequence parallelism is on. The operator of newer vllm-ascend, which has one
    argument, is for expert parallelism alone."""
    from vllm.distributed import get_tp_group
    from vllm_ascend.utils import enable_sp

    if len(whole.default._schema.arguments) == 1 or enable_sp():
        return whole(x, *is_ep_comm)
    return _sum(x, get_tp_group())


def _reduce_experts(whole: Any, states: torch.Tensor, *layer_name: str) -> torch.Tensor:
    """A sum over the ranks. With expert parallelism, the number of tokens of a step decides whether there is one."""
    from vllm.distributed import get_tp_group
    from vllm.forward_context import get_forward_context

    layers = get_forward_context().no_compile_layers.values()
    if any(layer.moe_config.moe_parallel_config.use_ep for layer in layers if hasattr(layer, "moe_config")):
        return whole(states, *layer_name)
    return _sum(states, get_tp_group())


# Operators that are the same parts in every call.
_PARTS = {
    "all_reduce": _all_reduce,
    "npu_rotary_embedding": _rotary_embedding,
    "unquantized_gemm": _unquantized_gemm,
}
# Operators whose parts are kernels, too.
_KERNELS = {"unquantized_gemm": _unquantized_gemm}
# Operators that are parts with some settings of vLLM. With others the function calls ``whole``, a second operator with
# the kernels of the first, which stays in the graph.
_DECIDED = {
    "maybe_all_reduce_tensor_model_parallel": _reduce_experts,
    "maybe_pad_and_reduce": _pad_and_reduce,
}
