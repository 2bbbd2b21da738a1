# SPDX-License-Identifier: Apache-2.0
"""Handlers of operators whose calls in a captured graph ``NPUGraph.update`` can issue again with other arguments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from npugraph import _ascend as _device
from npugraph.fx.translate.pieces import issued_again
from torch_npu._operators import overload
from torch_npu.npu.streams import ExternalEvent, Stream
from torch_npu.npu.utils import current_stream, stream

Prepared = tuple[torch._ops.OpOverload, tuple[Any, ...], dict[str, Any]]


class NpuGraphOpHandler:
    """Turns calls of one operator into task groups. This class issues a call as it is, which is right for operators
    that write their results into arguments. If the call has no ``workspace``, it gets one of the size that the operator
    ``workspace_query`` returns ("npu::name", "npu::name.overload")."""

    def __init__(self, workspace_query: str | None = None) -> None:
        self._workspace_query = workspace_query

    def prepare(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared:
        """Returns the call to capture in place of ``func(*args, **kwargs)``. It is issued again at each update, and
        must then write the same memory as before."""
        return func, args, self._with_workspace(func, args, kwargs)

    def _with_workspace(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        takes = [argument.name for argument in func._schema.arguments]
        if self._workspace_query is None or "workspace" not in takes or kwargs.get("workspace") is not None:
            return kwargs
        query = overload(self._workspace_query)
        given = dict(zip(takes, args, strict=False)) | kwargs
        asked = {a.name: given[a.name] for a in query._schema.arguments if a.name in given}
        return kwargs | {"workspace": torch.empty_like(query(**_on_meta(asked)), device=_device_of(args, kwargs))}

    def update(
        self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], new: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the arguments of the prepared call with those of ``new`` in their places. Raises ``ValueError`` for
        names that the operator does not take."""
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
    """Issues the overload ``out`` of an operator, which writes memory that is allocated at the capture."""

    def __init__(self, workspace_query: str | None = None, overload: str = "out") -> None:
        super().__init__(workspace_query)
        self._overload = overload

    def prepare(self, func, args, kwargs):
        out = getattr(func._overloadpacket, self._overload)
        made = pytree.tree_leaves(func(*_on_meta(args), **_on_meta(kwargs)))
        device = _device_of(args, kwargs)
        results = [torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device=device) for t in made]
        names = [argument.name for argument in out._schema.arguments if _is_written(argument)]
        written = dict(zip(names, results, strict=True)) if names else {"out": results}
        return out, args, self._with_workspace(out, args, kwargs) | written


def _device_of(*values: Any) -> torch.device:
    return next(leaf.device for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor))


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _on_meta(values: Any) -> Any:
    return pytree.tree_map_only(
        torch.Tensor, lambda t: torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device="meta"), values
    )


_INFER = "npu::npu_fused_infer_attention_score"
_LATENT = "atb::npu_multi_head_latent_attention"
_INFER_WORKSPACE = "npu::_npu_fused_infer_attention_score_get_max_workspace"
_INFER_V2_WORKSPACE = "npu::_npu_fused_infer_attention_score_v2_get_max_workspace"
_LATENT_WORKSPACE = "atb::_npu_multi_head_latent_attention_get_workspace.lse"
_FUSION_WORKSPACE = "npu::_npu_fusion_attention_v3_get_max_workspace"

_handlers: dict[str, NpuGraphOpHandler] = {}
# From an operator to its second form, which compiled graphs hold.
_graph_forms = {row.name: row.graph_form for row in _device.operators() if row.graph_form}


def register_npu_graph_handler(
    operator: str | torch._ops.OpOverload | Sequence[str | torch._ops.OpOverload],
    handler: NpuGraphOpHandler | type[NpuGraphOpHandler] | None = None,
) -> Any:
    """Makes ``NPUGraph.update`` know ``operator``: an overload, its name ("npu::name", "npu::name.out"), or several of
    them. Without ``handler`` it returns a decorator of a class of handlers. Raises TypeError unless ``handler`` is an
    NpuGraphOpHandler or a class of it."""
    if handler is None:
        return lambda decorated: register_npu_graph_handler(operator, decorated) or decorated
    made = handler() if isinstance(handler, type) else handler
    if not isinstance(made, NpuGraphOpHandler):
        raise TypeError(f"register_npu_graph_handler: expected an NpuGraphOpHandler, got a {type(made).__name__}")
    operators = operator if isinstance(operator, (list, tuple)) else [operator]
    for op in operators:
        name = op if isinstance(op, str) else op.name()
        for form in filter(None, (name, _graph_forms.get(name))):
            _handlers[form] = made
            issued_again.add(form)
    return None


_own_handlers = {
    _INFER: OutHandler(_INFER_WORKSPACE),
    f"{_INFER}.out": NpuGraphOpHandler(_INFER_WORKSPACE),
    f"{_INFER}_v2": OutHandler(_INFER_V2_WORKSPACE),
    f"{_INFER}_v2.out": NpuGraphOpHandler(_INFER_V2_WORKSPACE),
    "npu::npu_fusion_attention_v3": OutHandler(_FUSION_WORKSPACE),
    "npu::npu_fusion_attention_v3.out": NpuGraphOpHandler(_FUSION_WORKSPACE),
    "atb::_npu_paged_attention": NpuGraphOpHandler("atb::_npu_paged_attention_get_workspace"),
    _LATENT: OutHandler(),
    f"{_LATENT}.out": NpuGraphOpHandler(),
    f"{_LATENT}.lse": OutHandler(_LATENT_WORKSPACE, "lse_out"),
    f"{_LATENT}.lse_out": NpuGraphOpHandler(_LATENT_WORKSPACE),
}
for _name in _own_handlers:
    register_npu_graph_handler(_name, _own_handlers[_name])


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
    """While this mode is on, calls of operators with a handler become task groups. Before each of them stands a wait
    for an event that ``update`` records."""

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
        """Issues the calls again, in a stream of their own. Raises RuntimeError if none was captured, ValueError for
        another number of dicts than one or one for each call."""
        if not self._calls:
            raise RuntimeError(
                "NPUGraph.update: the graph holds no call to update. Capture it with auto_dispatch_capture=True; calls "
                "of operators that have a handler (register_npu_graph_handler) can be updated"
            )
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
