# SPDX-License-Identifier: Apache-2.0
"""``make_graphed_callables``: modules and functions whose forward and backward passes are replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_npu.npu.npu_graph import NPUGraph, Pool, graph, graph_pool_handle
from torch_npu.npu.streams import Stream
from torch_npu.npu.utils import device_of, stream, synchronize

Tensors = tuple[torch.Tensor, ...]


def make_graphed_callables(
    callables: Callable[..., Any] | Sequence[Callable[..., Any]],
    sample_args: Sequence[Any],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Pool | None = None,
) -> Any:
    """Captures ``callables`` (one, or several in the order in which they will run) and their backward passes. Returns
    functions, or the modules themselves, that replay them.

    ``sample_args`` has the sizes and the ``requires_grad`` of all later arguments, which are tensors. Later arguments
    are copied into its memory, and results stand in the memory of the graphs. A module replays while its ``training``
    is as at the capture, and otherwise runs its own ``forward``. With ``allow_unused_input``, gradients of inputs that
    results do not depend on are None.

    Raises ``RuntimeError`` for modules with hooks and for buffers that require gradients, ``ValueError`` for arguments
    that are not tensors or have another number or structure.
    """
    single = not isinstance(callables, (list, tuple))
    all_callables = [callables] if single else list(callables)
    all_args = [sample_args] if single else list(sample_args)
    if len(all_args) != len(all_callables):
        raise ValueError(f"make_graphed_callables: {len(all_callables)} callables, but arguments for {len(all_args)}")
    passes = [_Passes(fn, args, allow_unused_input) for fn, args in zip(all_callables, all_args, strict=True)]
    with device_of(next((tensor for one in passes for tensor in one.inputs if tensor.is_npu), None)):
        _capture(passes, num_warmup_iters, graph_pool_handle() if pool is None else pool)
    graphed = [one.graphed() for one in passes]
    return graphed[0] if single else tuple(graphed)


def _capture(passes: list[_Passes], num_warmup_iters: int, pool: Pool) -> None:
    synchronize()
    with stream(Stream()):
        for one in passes:
            one.warm_up(num_warmup_iters)
    synchronize()
    for one in passes:
        one.capture_forward(pool)
    for one in reversed(passes):
        one.capture_backward(pool)


class _Passes:
    """The forward pass and the backward pass of one callable."""

    def __init__(self, fn: Callable[..., Any], args: Any, allow_unused_input: bool) -> None:
        self.fn = fn
        self.args = tuple(args)
        leaves, self.args_spec = pytree.tree_flatten(self.args)
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor):
                raise ValueError(f"make_graphed_callables: sample_args hold tensors only, got a {type(leaf).__name__}")
        parameters = _parameters_of(fn) if isinstance(fn, torch.nn.Module) else ()
        self.arg_leaves: Tensors = tuple(leaves)
        self.inputs: Tensors = self.arg_leaves + parameters
        self.parameters = parameters
        self.allow_unused_input = allow_unused_input
        self.forward_graph = NPUGraph()
        self.backward_graph = NPUGraph()

    @property
    def wanted(self) -> Tensors:
        """The inputs that get a gradient."""
        return tuple(tensor for tensor in self.inputs if tensor.requires_grad)

    def warm_up(self, times: int) -> None:
        for _ in range(times):
            outputs = [t for t in pytree.tree_leaves(self.fn(*self.args)) if t.requires_grad]
            if outputs and self.wanted:
                self.gradients(outputs, [torch.empty_like(t) for t in outputs])

    def gradients(self, outputs: Sequence[torch.Tensor], of_outputs: Sequence[torch.Tensor]) -> Tensors:
        return torch.autograd.grad(
            outputs, self.wanted, of_outputs, only_inputs=True, allow_unused=self.allow_unused_input
        )

    def capture_forward(self, pool: Pool) -> None:
        with graph(self.forward_graph, pool=pool):
            outputs = self.fn(*self.args)
        leaves, self.outputs_spec = pytree.tree_flatten(outputs)
        self.outputs: Tensors = tuple(leaves)

    def capture_backward(self, pool: Pool) -> None:
        self.of_outputs = tuple(torch.empty_like(t) if t.requires_grad else None for t in self.outputs)
        outputs = [t for t in self.outputs if t.requires_grad]
        given = [t for t in self.of_outputs if t is not None]
        found: Sequence[torch.Tensor | None] = ()
        if outputs and self.wanted:
            with graph(self.backward_graph, pool=pool):
                found = self.gradients(outputs, given)
        self.has_backward = bool(found)
        remaining = iter(found)
        self.of_inputs = tuple(next(remaining, None) if t.requires_grad else None for t in self.inputs)

    def run(self, args: Any) -> Any:
        leaves, spec = pytree.tree_flatten(tuple(args))
        if spec != self.args_spec:
            raise ValueError("a graphed callable takes arguments of the structure of its sample_args")
        results = _Replay.apply(self, *leaves, *self.parameters)
        return pytree.tree_unflatten(results, self.outputs_spec)

    def graphed(self) -> Callable[..., Any]:
        if not isinstance(self.fn, torch.nn.Module):
            return lambda *args: self.run(args)
        module, original, training = self.fn, self.fn.forward, self.fn.training

        def forward(*args: Any) -> Any:
            return self.run(args) if module.training == training else original(*args)

        module.forward = forward
        return module


def _parameters_of(module: torch.nn.Module) -> Tensors:
    hooks = (module._backward_hooks, module._forward_hooks, module._forward_pre_hooks)
    if any(map(len, hooks)):
        raise RuntimeError("make_graphed_callables: modules must have no hooks when they are captured")
    if any(buffer.requires_grad for buffer in module.buffers()):
        raise RuntimeError("make_graphed_callables: buffers must not require gradients; only parameters may")
    return tuple(module.parameters())


class _Replay(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, passes: _Passes, *inputs: torch.Tensor) -> Tensors:
        ctx.passes = passes
        for static, given in zip(passes.arg_leaves, inputs, strict=False):
            if static.data_ptr() != given.data_ptr():
                static.detach().copy_(given)
        passes.forward_graph.replay()
        results = tuple(output.detach() for output in passes.outputs)
        ctx.mark_non_differentiable(*(r for r, o in zip(results, passes.outputs, strict=True) if not o.requires_grad))
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *of_outputs: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        passes = ctx.passes
        for static, given in zip(passes.of_outputs, of_outputs, strict=True):
            if static is not None and static.data_ptr() != given.data_ptr():
                static.copy_(given)
        if passes.has_backward:
            passes.backward_graph.replay()
        return (None, *(None if grad is None else grad.detach() for grad in passes.of_inputs))
