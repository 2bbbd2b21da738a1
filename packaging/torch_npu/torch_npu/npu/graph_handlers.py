# SPDX-License-Identifier: Apache-2.0
"""Operators whose calls in a captured graph can be issued again with other arguments, by ``NPUGraph.update``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from npugraph._C import device as _device
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torch_npu.npu.streams import ExternalEvent, Stream
from torch_npu.npu.utils import current_stream, stream


class NpuGraphOpHandler:
    """How one operator becomes a task group. This one issues the call as it is, which is right for operators that write
    their results into arguments."""

    def prepare(
        self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[torch._ops.OpOverload, tuple[Any, ...], dict[str, Any]]:
        """The call to capture in place of ``func(*args, **kwargs)``. It is issued again at each update, and must then
        write the memory that it wrote before."""
        return func, args, kwargs

    def update(
        self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], new: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of the prepared call with those of ``new`` in their places. ``ValueError`` for names that the
        operator does not take."""
        names = [argument.name for argument in func._schema.arguments]
        unknown = sorted(set(new) - set(names))
        if unknown:
            raise ValueError(f"NPUGraph.update: {func.name()} takes no argument {unknown[0]!r}; it takes {names}")
        placed = list(args)
        kwargs = dict(kwargs)
        for name, value in new.items():
            position = names.index(name)
            if position < len(placed):
                placed[position] = value
            else:
                kwargs[name] = value
        return tuple(placed), kwargs


class OutHandler(NpuGraphOpHandler):
    """Issues the overload ``out`` of an operator, into memory that is allocated when it is captured."""

    def __init__(self, overload: str = "out") -> None:
        self._overload = overload

    def prepare(self, func, args, kwargs):
        out = getattr(func._overloadpacket, self._overload)
        made = pytree.tree_leaves(func(*_on_meta(args), **_on_meta(kwargs)))
        device = next(leaf.device for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor))
        results = [torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device=device) for t in made]
        names = [argument.name for argument in out._schema.arguments if _is_written(argument)]
        if names:
            return out, args, {**kwargs, **dict(zip(names, results, strict=True))}
        return out, args, {**kwargs, "out": results}


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _on_meta(values: Any) -> Any:
    return pytree.tree_map_only(
        torch.Tensor, lambda t: torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device="meta"), values
    )


_handlers: dict[str, NpuGraphOpHandler] = {
    "npu::npu_fused_infer_attention_score": OutHandler(),
    "npu::npu_fused_infer_attention_score.out": NpuGraphOpHandler(),
    "npu::npu_fused_infer_attention_score_v2": OutHandler(),
    "npu::npu_fused_infer_attention_score_v2.out": NpuGraphOpHandler(),
    "atb::_npu_paged_attention": NpuGraphOpHandler(),
    "atb::npu_multi_head_latent_attention": OutHandler(),
    "atb::npu_multi_head_latent_attention.out": NpuGraphOpHandler(),
    "atb::npu_multi_head_latent_attention.lse": OutHandler("lse_out"),
    "atb::npu_multi_head_latent_attention.lse_out": NpuGraphOpHandler(),
}


def register_npu_graph_handler(
    operator: str | torch._ops.OpOverload | Sequence[str | torch._ops.OpOverload],
    handler: NpuGraphOpHandler | type[NpuGraphOpHandler] | None = None,
) -> Any:
    """Makes ``NPUGraph.update`` know ``operator``, an overload or its name ("npu::name", "npu::name.out"), or several.
    Without ``handler`` it is a decorator of a class of handlers."""
    if handler is None:
        return lambda decorated: register_npu_graph_handler(operator, decorated) or decorated
    made = handler() if isinstance(handler, type) else handler
    if not isinstance(made, NpuGraphOpHandler):
        raise TypeError(f"register_npu_graph_handler: expected an NpuGraphOpHandler, got a {type(made).__name__}")
    operators = operator if isinstance(operator, (list, tuple)) else [operator]
    for op in operators:
        _handlers[op if isinstance(op, str) else op.name()] = made
    return None


@dataclasses.dataclass
class _Call:
    """A call in the graph. Its arguments live as long as the graph."""

    handler: NpuGraphOpHandler
    func: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    group: Any
    event: ExternalEvent


class GraphDispatchMode(TorchDispatchMode):
    """While it is on, calls of operators with a handler become task groups, each behind an event that ``update``
    records."""

    def __init__(self) -> None:
        super().__init__()
        self._calls: list[_Call] = []
        self._update_stream: Stream | None = None

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        handler = _handlers.get(func.name())
        return func(*args, **kwargs) if handler is None else self._capture(handler, func, args, kwargs)

    def _capture(self, handler: NpuGraphOpHandler, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        func, args, kwargs = handler.prepare(func, args, kwargs)
        here = current_stream()
        event = ExternalEvent()
        event.wait(here)
        event.reset(here)
        _device.begin_task_group(here)
        result = func(*args, **kwargs)
        group = _device.end_task_group(here)
        self._calls.append(_Call(handler, func, args, kwargs, group, event))
        return result

    def update(self, cpu_update_input: Sequence[Mapping[str, Any]]) -> None:
        """Issues the calls again, in a stream of their own."""
        inputs = list(cpu_update_input)
        if len(inputs) == 1:
            inputs *= len(self._calls)
        if len(inputs) != len(self._calls):
            raise ValueError(
                f"NPUGraph.update: cpu_update_input has one dict for all {len(self._calls)} captured calls, or one for "
                f"each; got {len(inputs)}"
            )
        self._update_stream = self._update_stream or Stream()
        with stream(self._update_stream):
            for call, new in zip(self._calls, inputs, strict=True):
                self._issue(call, new, self._update_stream)

    def _issue(self, call: _Call, new: Mapping[str, Any], update_stream: Stream) -> None:
        args, kwargs = call.handler.update(call.func, call.args, call.kwargs, new)
        _device.begin_task_update(update_stream, call.group)
        try:
            call.func(*args, **kwargs)
        except BaseException:
            _device.abandon_task_update(update_stream)
            raise
        _device.end_task_update(update_stream)
        call.args, call.kwargs = args, kwargs
        call.event.record(update_stream)
