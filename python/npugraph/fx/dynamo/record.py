# SPDX-License-Identifier: Apache-2.0
"""The recorder: Dynamo's graph -> the functional graph of its ATen operators, without AOTAutograd.

For inference, AOTAutograd in essence runs the graph over fake tensors and writes down the operators that are called. It
runs the graph twice, through several layers of wrappers. The recorder runs it once, over the fake tensors that Dynamo
has already made. It takes only graphs for which both give the same result, and refuses all others.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.exc import TorchDynamoException
from torch._higher_order_ops.effects import has_effects
from torch._library.simple_registry import singleton
from torch._logging import getArtifactLogger, trace_structured
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx._utils import lazy_format_graph_code
from torch.fx.experimental.proxy_tensor import disable_autocast_cache
from torch.utils._python_dispatch import TorchDispatchMode

from npugraph.fx.corrections import with_own_memory
from npugraph.fx.dynamo.fake_results import FakeResults
from npugraph.fx.dynamo.memory_state import MemoryState, NotRecorded, Tracked, View
from npugraph.fx.dynamo.symbol_nodes import Symbolic, SymbolNodes
from npugraph.fx.schema import is_composite, is_view
from npugraph.fx.streams.stream_marks import marks
from npugraph.fx.true_strides import as_written, with_true_strides
from npugraph.fx.values import evaluate, origin_of

aten = torch.ops.aten

# The logger of AOTAutograd's graphs, which TORCH_LOGS="aot" turns on.
_log = getArtifactLogger("torch._functorch._aot_autograd.graph_capture", "aot_graphs")


# Operators that pass on the same tensor and compute nothing.
_IDENTITIES = {aten.detach.default, aten.alias.default, aten.lift.default}


def record(gm: fx.GraphModule) -> fx.GraphModule:
    """Returns the graph of ATen operators that AOTAutograd would make of Dynamo's graph ``gm`` for inference:
    functional, with a ``copy_`` into each written input at its end. Raises ``NotRecorded`` if that is not certain;
    nothing has changed then."""
    try:
        made = _record(gm)
    except (NotRecorded, TorchDynamoException):
        raise
    except Exception as error:  # the user's program is wrong, or only AOTAutograd can trace it
        raise NotRecorded(f"{type(error).__name__}: {error}") from error
    _publish(made)
    return made


def _record(gm: fx.GraphModule) -> fx.GraphModule:
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    values = [node.meta.get("example_value") for node in placeholders]
    _check_inputs(values)
    _check_nodes(gm.graph.nodes)
    with _as_aot_traces(values):
        recorder = _Recorder(_fake_mode_of(values))
        for node, value in zip(placeholders, values, strict=True):
            recorder.add_input(node, value)
        with recorder:
            outputs = _run(gm, values, recorder)
        recorder.finish(outputs)
    return _LazyGraphModule(recorder.root, recorder.graph)


def _check_inputs(values: Sequence[Any]) -> None:
    storages = set()
    for value in values:
        if isinstance(value, (bool, int, float, *Symbolic)):
            continue
        if type(value) is not FakeTensor or value.layout is not torch.strided:
            raise NotRecorded(f"an input of type {type(value).__name__}")
        if value.requires_grad and torch.is_grad_enabled():
            raise NotRecorded("gradients")
        if value.is_conj() or value.is_neg():
            raise NotRecorded("a lazy conjugate or negative")
        storage = value.untyped_storage()._cdata
        if storage in storages:
            raise NotRecorded("inputs that share memory")
        storages.add(storage)
    if not storages:
        raise NotRecorded("no tensor among the inputs")


def _check_nodes(nodes: Iterable[fx.Node]) -> None:
    for node in nodes:
        if "unbacked_bindings" in node.meta:
            raise NotRecorded("sizes that only a run can tell")
        if node.op in ("get_attr", "call_module"):
            raise NotRecorded(f"{node.op} {node.target}")
        if node.op == "call_function" and not _is_plain(node.target):
            raise NotRecorded(f"{node.target}")


def _is_plain(function: Any) -> bool:
    """Whether running ``function`` calls operators and does nothing else."""
    if isinstance(function, torch._ops.HigherOrderOperator):
        return False
    module = getattr(function, "__module__", None) or ""
    return not module.startswith(("torch._functorch", "torch._C._functorch", "torch._dynamo", "torch.func."))


@contextlib.contextmanager
def _as_aot_traces(values: Sequence[Any]) -> Iterator[None]:
    """Sets the state in which AOTAutograd traces, so that composite operators are decomposed in the same way."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(torch.set_grad_enabled(torch.is_grad_enabled()))
        stack.enter_context(disable_autocast_cache())
        stack.enter_context(_fake_mode_of(values))
        stack.enter_context(enable_python_dispatcher())
        yield


def _fake_mode_of(values: Sequence[Any]) -> FakeTensorMode:
    return next(value for value in values if isinstance(value, torch.Tensor)).fake_mode


def _run(gm: fx.GraphModule, inputs: Sequence[Any], recorder: _Recorder) -> Any:
    env: dict[fx.Node, Any] = {}
    remaining = iter(inputs)
    for node in gm.graph.nodes:
        args, kwargs = fx.map_arg((node.args, node.kwargs), env.__getitem__)
        recorder.origin = origin_of(node)
        if node.op == "placeholder":
            env[node] = next(remaining)
        elif node.op == "output":
            return args[0]
        elif node.op == "call_method":
            env[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
        else:
            env[node] = node.target(*args, **kwargs)
    raise NotRecorded("a graph without outputs")


class _Recorder(TorchDispatchMode):
    """A dispatch mode that adds each call of an operator to ``graph``."""

    def __init__(self, fake_mode: FakeTensorMode) -> None:
        super().__init__()
        self._results = FakeResults(fake_mode)
        self.root = torch.nn.Module()
        self.graph = fx.Graph()
        self.origin: dict[str, Any] = {}  # metadata of the nodes that are added next
        self._memory = MemoryState(self._add)
        self._symbols = SymbolNodes(self.graph)
        self._inputs: list[tuple[fx.Node, Any]] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # Dynamo traces no frames of a backend, so calls need not be hidden from it

    def add_input(self, like: fx.Node, value: Any) -> None:
        node = self.graph.placeholder(like.name)
        node.meta["val"] = value
        self._inputs.append((node, value))
        if isinstance(value, torch.Tensor):
            self._memory.track(value, node)
            self._tracked(value).memory.of_input = True
        elif isinstance(value, Symbolic):
            self._symbols.bind(value, node)

    def finish(self, outputs: Any) -> None:
        """Adds the copies into written inputs, and the outputs."""
        returned = [self._output(value) for value in outputs]
        for node, value in self._inputs:
            written = self._memory.written.get(id(value))
            if written is not None:
                values = self._memory.node(written)
                self.origin = origin_of(values)
                self._add(aten.copy_.default, node, values)
        self.graph.output(tuple(returned))
        self.graph.eliminate_dead_code()

    def _output(self, value: Any) -> Any:
        """The node or number of an output. Raises ``NotRecorded`` for outputs that only AOTAutograd handles: those that
        require gradients or lie in the memory of an input."""
        if not isinstance(value, torch.Tensor):
            if value is None or isinstance(value, (bool, int, float, *Symbolic)):
                return self._argument(value)
            raise NotRecorded(f"an output of type {type(value).__name__}")
        tracked = self._tracked(value)
        if value.requires_grad or tracked.memory.of_input:
            raise NotRecorded("an output that requires gradients, or lies in the memory of an input")
        return self._memory.node(tracked)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return func(*args, **kwargs)
        if is_composite(func):
            with self:
                return func.decompose(*args, **kwargs)
        if func is aten.lift_fresh.default and not isinstance(args[0], FakeTensor):
            return self._lift(args[0])
        if func in _IDENTITIES:
            result = func(*args, **kwargs)
            self._memory.rename(result, self._tracked(args[0]))
            return result
        if func in marks():
            if func._schema.returns:
                return self._call(func, args, kwargs)
            node = self._node(func, args, kwargs)
            node.meta |= self.origin | {"val": None}
            return None
        _check_operator(func)
        return self._write(func, args, kwargs) if func._schema.is_mutable else self._call(func, args, kwargs)

    def _lift(self, constant: torch.Tensor) -> torch.Tensor:
        """Handles a tensor that the program spells out. It becomes a constant of the graph, and the program gets a
        copy."""
        result = aten.lift_fresh.default(constant)
        name = f"_tensor_constant{len(list(self.root.buffers()))}"
        self.root.register_buffer(name, constant)
        node = self.graph.get_attr(name)
        node.meta |= self.origin | {"val": result}
        self._memory.track(result, self._add(aten.lift_fresh_copy.default, node))
        return result

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = with_true_strides(func, args, self._results.of(func, args, kwargs))
        result = with_own_memory(func, args, kwargs, result)
        if func is aten._local_scalar_dense.default and isinstance(result, Symbolic):
            return self._read(args[0], result)
        if not isinstance(result, (torch.Tensor, list, tuple)):
            return _number(func, result)
        node = self._node(func, args, kwargs)
        base = self._tracked(args[0]) if is_view(func) else None
        # In the functional graph, the values of written memory lie elsewhere, and so do views of them.
        moved = base is not None and base.node.meta["val"] is not base.tensor
        value = evaluate(node) if moved else result
        node.meta |= self.origin | {"val": value}
        if isinstance(result, torch.Tensor):
            self._memory.track(result, node, base and View(base, func, node.args[1:], node.kwargs, None))
            return result
        for i, item in enumerate(result):
            if isinstance(item, torch.Tensor):
                view = base and View(base, func, node.args[1:], node.kwargs, i)
                self._memory.track(item, self._add(operator.getitem, node, i), view)
        return result

    def _read(self, tensor: torch.Tensor, result: Any) -> Any:
        """Reads a number that the caller passed in a tensor. Dynamo passes floats that way."""
        node = self._node(aten._local_scalar_dense.default, (tensor,), {})
        node.meta |= self.origin | {"val": result}
        self._symbols.bind(result, node)
        return result

    def _write(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        written = self._tracked(args[0])
        node = self._add(_functional_form(func), *args, **kwargs)
        node.meta["val"] = as_written(node.meta["val"], args[0])
        self._memory.write(written, node)
        return args[0]

    def _tracked(self, tensor: torch.Tensor) -> Tracked:
        found = self._memory.find(tensor)
        if found is None:
            raise NotRecorded("a tensor that no operator made")
        return found

    def _argument(self, value: Any) -> Any:
        """Converts ``value`` to an argument of a node."""
        if isinstance(value, torch.Tensor):
            return self._memory.node(self._tracked(value))
        if isinstance(value, Symbolic):
            return self._symbols(value)
        if isinstance(value, (list, tuple)):
            return type(value)(map(self._argument, value))
        return value

    def _add(self, function: Any, *args: Any, **kwargs: Any) -> fx.Node:
        node = self._node(function, args, kwargs)
        node.meta |= self.origin | {"val": evaluate(node)}
        return node

    def _node(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
        """Adds a call without evaluating it. Its arguments may be nodes, and values that have nodes."""
        name = function._overloadpacket.__name__ if isinstance(function, torch._ops.OpOverload) else None
        keywords = {key: self._argument(value) for key, value in kwargs.items()}
        return self.graph.create_node("call_function", function, self._argument(args), keywords, name)


def _number(func: Any, result: Any) -> Any:
    """Returns a result that is a number. It needs no node, because the symbols of sizes say how to compute it. Raises
    ``NotRecorded`` for results of other types."""
    if result is None or not isinstance(result, (bool, int, float, *Symbolic)):
        raise NotRecorded(f"{func} gives a {type(result).__name__}")
    return result


@functools.cache
def _check_operator(func: Any) -> None:
    schema = func._schema
    aliases = [result.alias_info.before_set for result in schema.returns if result.alias_info is not None]
    first = schema.arguments[0].alias_info if schema.arguments else None
    of_first = all(first is not None and alias <= first.before_set | {"*"} for alias in aliases)
    if not schema.returns or not of_first or torch.Tag.inplace_view in func.tags or has_effects(func):
        raise NotRecorded(f"{func}")
    if singleton.find(func.name()).torch_dispatch_rules.find(FunctionalTensorMode) is not None:
        raise NotRecorded(f"{func}, whose parts only AOTAutograd asks for")


@functools.cache
def _functional_form(func: Any) -> Any:
    """The operator that returns as a new tensor what ``func`` writes into its first argument. Raises ``NotRecorded`` if
    ``func`` writes other arguments, or has no such form."""
    schema = func._schema
    name = schema.name.removeprefix("aten::")
    written = [i for i, arg in enumerate(schema.arguments) if arg.alias_info is not None and arg.alias_info.is_write]
    if written == [0] and name.endswith("_") and torch.Tag.nondeterministic_seeded not in func.tags:
        form = getattr(getattr(aten, name.removesuffix("_"), None), schema.overload_name or "default", None)
        if form is not None and not form._schema.is_mutable and not is_view(form):
            return form
    raise NotRecorded(f"{func}")


def _publish(gm: fx.GraphModule) -> None:
    """Logs the graph where AOTAutograd logs its graphs."""
    _log.info("%s", lazy_format_graph_code("Forward graph", gm, include_stride=True, include_device=True, colored=True))
    trace_structured("inference_graph", payload_fn=lambda: gm.print_readable(print_output=False))
