# SPDX-License-Identifier: Apache-2.0
"""Tells torch.compile about npu: its device interface, and the functions of ``torch.npu`` that graphs contain or fold.

``install_when_imported()`` does so once torch._dynamo is imported, so that nobody else pays for that import.
"""

from __future__ import annotations

from typing import Any

import torch

from npugraph import _ascend as _device
from npugraph.after_import import after_import
from torch_npu import _checkpointed_random
from torch_npu.npu._index import device_index
from torch_npu.npu.properties import _NPUDeviceProperties
from torch_npu.npu.utils import _as_stream

# Graphs fold the results of these functions, which do not change while a compiled function lives. Only the current
# device can change, so its result is guarded.
_FOLDED = (
    "device_count",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_soc_version",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
)
_FOLDED_WITH_GUARDS = ("current_device",)
# Maps functions of torch.npu to the functions of torch.accelerator whose handlers they take.
_AS_ACCELERATOR = {"current_stream": "current_stream", "synchronize": "synchronize"}
# These functions return numbers that change from call to call. Dynamo breaks a graph at them, as at those of
# torch.cuda, and says so.
_OF_THE_MOMENT = (
    "is_current_stream_capturing",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
)

# Callers of these functions may be where fake tensors cannot be made. Dynamo traces no generators in any case.
_OF_GENERATORS = ("get_rng_state", "get_rng_state_all", "set_rng_state", "set_rng_state_all")

# The attributes that identify a stream. Graphs fold them.
_STREAM_NUMBERS = ("device_index", "device_type", "native_handle", "npu_stream", "priority", "stream_id")


def install() -> None:
    """Registers npu with torch._dynamo, which must be imported already."""
    from torch._dynamo import device_interface, trace_rules
    from torch._dynamo.eval_frame import set_code_exec_strategy
    from torch._dynamo.types import FrameAction, FrameExecStrategy
    from torch._dynamo.utils import common_constant_types
    from torch._dynamo.variables import TorchInGraphFunctionVariable, ctx_manager, streams
    from torch._dynamo.variables import torch as handled
    from torch._dynamo.variables.user_defined import UserDefinedClassVariable

    npu = torch.npu
    interface = _interface(device_interface.DeviceInterface)
    for name in ("npu", *(f"npu:{index}" for index in range(npu.device_count()))):
        device_interface.register_interface_for_device(name, interface)
    common_constant_types.add(_NPUDeviceProperties)
    own_handlers = {"stream": _enter_stream, "set_stream": _set_stream, "default_stream": _default_stream}
    names = (*_FOLDED, *_FOLDED_WITH_GUARDS, *_AS_ACCELERATOR, *_OF_THE_MOMENT, *own_handlers)
    rules = {f"{_function(name).__module__}.{name}": TorchInGraphFunctionVariable for name in names}
    for name in (*names, *_OF_GENERATORS):  # after a graph break they are called without being traced
        code = _function(name).__code__
        set_code_exec_strategy(code, FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP))
    trace_rules.torch_name_rule_map.append(rules)
    trace_rules.clear_lru_cache()
    for name in (*_FOLDED, *_FOLDED_WITH_GUARDS):
        handled.constant_fold_functions[_function(name)] = None
    for name in _FOLDED_WITH_GUARDS:
        handled.constant_fold_functions_need_guards[_function(name)] = None
    handlers = TorchInGraphFunctionVariable._get_handlers()
    for name, generic in _AS_ACCELERATOR.items():
        handlers[_function(name)] = handlers[getattr(torch.accelerator, generic)]
    handlers |= {_function(name): handler for name, handler in own_handlers.items()}
    handlers[torch.accelerator.set_stream] = _set_stream
    _record_switches(streams.StreamContextVariable)
    UserDefinedClassVariable._in_graph_classes().update({npu.Stream, npu.Event})
    streams._stream_fn_to_variable_cls[npu.current_stream] = _stream_variable(streams.StreamVariable)
    # If contrib.transfer_to_npu came first, torch.cuda.device is that of npu, and torch has a variable for it already.
    devices = ctx_manager._device_context_manager_map
    devices[npu.device] = _device_variable(ctx_manager.GenericDeviceVariable)
    _checkpointed_random.install()


def _stream_variable(base: type) -> type:
    """Returns the variable class of ``torch.npu.current_stream()`` in graphs."""
    from torch._dynamo.guards import GuardBuilder, install_guard
    from torch._dynamo.variables import ConstantVariable

    # The method that finds attributes; torch 2.14 has renamed it.
    getter = "tp_getattro_impl" if hasattr(base, "tp_getattro_impl") else "var_getattr"

    def get_attribute(self: Any, tx: Any, name: str) -> Any:
        if name not in _STREAM_NUMBERS:
            return getattr(base, getter)(self, tx, name)
        if self.source:
            install_guard(self.source.make_guard(GuardBuilder.EQUALS_MATCH))
        return ConstantVariable.create(getattr(_as_stream(self.value), name))

    return type("NpuStreamVariable", (base,), {"_cpython_type": torch.npu.Stream, getter: get_attribute})


def _device_variable(base: type) -> type:
    """Returns the variable class of ``with torch.npu.device(index)`` in graphs."""
    return type(
        "NpuDeviceVariable",
        (base,),
        {
            "_exchange_fn": staticmethod(_exchange_device),
            "_maybe_exchange_fn": staticmethod(_exchange_device),
            "_get_device_index_fn": staticmethod(lambda device, optional: torch.npu.device(device).idx),
            "module_name": lambda self: "torch.npu",
            "python_type": lambda self: torch.npu.device,
        },
    )


def _enter_stream(function: Any, tx: Any, stream: Any) -> Any:
    """Handles ``torch.npu.stream(stream)`` in graphs."""
    from torch._dynamo.variables.ctx_manager import NullContextVariable
    from torch._dynamo.variables.streams import StreamContextVariable

    if stream.is_python_constant() and stream.as_python_constant() is None:
        return NullContextVariable()
    return StreamContextVariable.create(tx, stream)


def _record_switches(context: Any) -> None:
    """Makes graph nodes of the changes that ``with stream`` makes to streams of npu. torch itself leaves only metadata
    in graphs, from which backends that run or read a graph would not know the stream."""
    enter, leave = context.enter, context.exit

    def current(tx: Any, device: int | None) -> Any:
        return tx.output.create_proxy("call_function", torch.npu.current_stream, (device,), {})

    def enter_and_record(self: Any, tx: Any, *args: Any) -> Any:
        stream = self.get_stream()
        if stream.device.type == "npu":
            before = [current(tx, None)]
            if stream.device.index != torch.npu.current_device():
                before.insert(0, current(tx, stream.device.index))
            self.__dict__.setdefault("_npu_streams_before", []).append(before)
            _choose_stream(tx, stream.as_proxy())
        return enter(self, tx, *args)

    def leave_and_record(self: Any, tx: Any, *args: Any) -> Any:
        left = leave(self, tx, *args)
        if self.get_stream().device.type == "npu":
            for stream in self.__dict__["_npu_streams_before"].pop():
                _choose_stream(tx, stream)
        return left

    context.enter, context.exit = enter_and_record, leave_and_record


def _set_stream(function: Any, tx: Any, stream: Any) -> Any:
    """Handles ``torch.npu.set_stream(stream)`` and ``torch.accelerator.set_stream(stream)`` in graphs. The current
    stream does not change while they are traced."""
    from torch._dynamo.variables import ConstantVariable

    if not (stream.is_python_constant() and stream.as_python_constant() is None):
        _choose_stream(tx, stream.as_proxy(), function.value)
        # Events and queries that name no stream use the top of this stack. The end of a ``with`` removes the top,
        # whichever stream it is.
        tx.symbolic_stream_state.cur_stream_stack[-1] = stream.realize()
    return ConstantVariable.create(None)


def _choose_stream(tx: Any, stream: Any, choose: Any = None) -> None:
    tx.output.create_proxy("call_function", choose or torch.npu.set_stream, (stream,), {})


def _default_stream(function: Any, tx: Any, device: Any = None) -> Any:
    """Handles ``torch.npu.default_stream(device)`` in graphs."""
    from torch._dynamo.source import AttrSource, ImportSource
    from torch._dynamo.variables.base import VariableTracker

    def variable(value: Any, source: Any = None) -> Any:
        return VariableTracker.build(tx, value, source)

    if device is None or device.as_python_constant() is None:
        source = AttrSource(AttrSource(ImportSource("torch"), "npu"), "current_device")
        index = variable(torch.npu.current_device, source).call_function(tx, [], {})
    else:
        index = variable(device_index(device.as_python_constant()))
    identity = {"stream_id": variable(0), "device_index": index, "device_type": variable(_device.TYPE)}
    return variable(torch.npu.Stream).call_function(tx, [], identity)


def npugraph_mark_step_begin() -> None:
    """Does nothing. As ``torch.compiler.npugraph_mark_step_begin()`` it says that another iteration of a model begins,
    so that the backend ``npugraphs`` may drop the results of earlier iterations. Here the caller keeps those results
    for as long as it holds them."""


def install_when_imported() -> None:
    """Calls ``install()`` now if torch._dynamo is imported, else as soon as it is."""
    torch.compiler.npugraph_mark_step_begin = npugraph_mark_step_begin
    after_import("torch._dynamo", lambda dynamo: install())


def _function(name: str):
    return getattr(torch.npu, name)


def _interface(base: type) -> type:
    npu = torch.npu

    class Worker:
        set_device = staticmethod(npu.set_device)
        current_device = staticmethod(npu.current_device)
        get_device_properties = staticmethod(npu.get_device_properties)

    return type(
        "NpuInterface",
        (base,),
        {
            "device": npu.device,
            "Event": npu.Event,
            "Stream": npu.Stream,
            "Worker": Worker,
            "current_device": staticmethod(npu.current_device),
            "set_device": staticmethod(npu.set_device),
            "exchange_device": staticmethod(_exchange_device),
            "maybe_exchange_device": staticmethod(_exchange_device),
            "device_count": staticmethod(npu.device_count),
            "is_available": staticmethod(npu.is_available),
            "stream": staticmethod(npu.stream),
            "current_stream": staticmethod(npu.current_stream),
            "set_stream": staticmethod(npu.set_stream),
            "_set_stream_by_id": staticmethod(_set_stream_by_id),
            "get_raw_stream": staticmethod(lambda index: npu.current_stream(index).npu_stream),
            "synchronize": staticmethod(npu.synchronize),
            "get_compute_capability": staticmethod(npu.get_device_name),
            "is_bf16_supported": staticmethod(npu.is_bf16_supported),
            "memory_allocated": staticmethod(npu.memory_allocated),
        },
    )


def _exchange_device(index: int) -> int:
    before = torch.npu.current_device()
    if index >= 0:
        torch.npu.set_device(index)
    return before


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    torch.npu.set_stream(torch.npu.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))
