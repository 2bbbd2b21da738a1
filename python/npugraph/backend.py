# SPDX-License-Identifier: Apache-2.0
"""The backend ``npugraph_ex`` of ``torch.compile``."""

from __future__ import annotations

import gc
import inspect
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import ShortenTraceback, TorchDynamoException
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils._python_dispatch import _disable_current_modes

from npugraph import _C, counters, guards
from npugraph.artifact import Artifact, Owners, registry
from npugraph.fx.importer import Imported, InputInfo, import_graph, source_line
from npugraph.fx.prepare import prepare
from npugraph.options import Options


class NpugraphWarning(UserWarning):
    """Something works, but not as fast as it could, or not captured."""


class DefectWarning(NpugraphWarning):
    """A graph could not be compiled because of a defect of ours, and runs as torch made it. Please report it."""


class OptionValueError(ShortenTraceback, ValueError):
    """A ``ValueError`` that torch.compile hands to the user as it is, without its own frames."""


class OptionTypeError(ShortenTraceback, TypeError):
    """A ``TypeError`` that torch.compile hands to the user as it is, without its own frames."""


def npugraph_ex(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles Dynamo's graph into captured, replayable Programs: ``torch.compile(fn, backend="npugraph_ex")``.

    With gradients off one Program is made, with gradients on a forward and a backward one. Raises ``ValueError`` for
    an unknown option (the message lists the known ones) or a value that is not allowed, ``TypeError`` for a value of
    the wrong type.
    """
    _C.ensure_counters()
    try:
        checked = Options.parse(options, mode)
    except (TypeError, ValueError) as error:
        kind = OptionTypeError if isinstance(error, TypeError) else OptionValueError
        raise kind(str(error), first_useful_frame=inspect.currentframe()) from None
    guards.install()
    compile_ = _Compile(gm, checked)
    compiled = aot_autograd(
        fw_compiler=compile_.forward,
        bw_compiler=compile_.backward,
        inference_compiler=compile_.inference,
        keep_inference_input_mutations=True,
    )(gm, example_inputs)
    if not compile_.depends_on_places:
        return compiled
    return _with_eager_fallback(compiled, gm, _shared_storages(example_inputs))


def _reset() -> None:
    registry.clear()
    counters.forget()


npugraph_ex.reset = _reset
counters.install()


def reset() -> None:
    """Forgets every compiled function and frees what it holds; the next call compiles again."""
    torch._dynamo.reset()
    _reset()
    gc.collect()
    _C.drop_unused_code()


class _Compile:
    """One entry of the backend: the graphs that AOTAutograd makes of one Dynamo graph."""

    def __init__(self, gm: fx.GraphModule, options: Options) -> None:
        self.options = options
        self.started = time.perf_counter()
        self.placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        self.name = options.name or registry.unique_name(_name_of(gm))
        self.depends_on_places = False  # of inputs in memory: relative to each other, or in their storages
        self.owners = Owners()

    def inference(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return self.compile(gm, self.name, self.describe_inputs(gm), training=False, watch=True)

    def forward(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        # The backward graph does not reuse what was saved for it, so that it may run again (retain_graph=True).
        torch._guards.TracingContext.get().fw_metadata.bw_donated_idxs = []
        return self.compile(gm, f"{self.name}.forward", self.describe_inputs(gm), training=True, watch=True)

    def backward(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        self.started = time.perf_counter()
        infos = [InputInfo("user", node.name) for node in gm.graph.nodes if node.op == "placeholder"]
        run = self.compile(gm, f"{self.name}.backward", infos, training=True)

        # AOTAutograd wraps what it gets here, and the wrapper copies attributes of Python functions only.
        def call(args: list[Any]) -> Any:
            return run(args)

        call._boxed_call = True
        return call

    def compile(
        self, gm: fx.GraphModule, name: str, inputs: list[InputInfo], *, training: bool, watch: bool = False
    ) -> Callable[..., Any]:
        entered = time.perf_counter()
        try:
            # Constants are real tensors, so the front end's fake tensors must not catch what is done with them.
            with _disable_current_modes():
                imported = import_graph(prepare(gm), name, inputs)
                core = self.compile_imported(imported, name, training, entered)
        except TorchDynamoException:
            raise  # asks the front end to start again
        except Exception as error:
            return _run_as_it_is(gm, name, error)
        artifact = Artifact(core, self.options.as_dict(), imported.callables)
        registry.add(artifact)
        self.depends_on_places |= core.writes_inputs() or imported.names_places
        _warn_partitions(imported.partitions)
        run = core.callable()
        run.owner = artifact
        self.owners.add(artifact)
        kinds = [info.kind for i, info in enumerate(inputs) if i not in dict(imported.object_inputs)]
        # A cache with static addresses may outlive the model, so what is not a parameter counts only where none is.
        of_model = _positions(kinds, "parameter") or _positions(kinds, "static")
        if watch and of_model:
            self.owners.watch(run, of_model)
        return run if imported.objects is None else _with_objects(run, imported)

    def compile_imported(self, imported: Imported, name: str, training: bool, entered: float) -> Any:
        front_end = [
            ("aot_autograd", (entered - self.started) * 1e3),
            ("import", (time.perf_counter() - entered) * 1e3),
        ]
        try:
            return _C.Artifact.compile(
                imported.graph, self.core_options(name, training), imported.partitions, front_end
            )
        finally:
            # Tasks hold their callables themselves.
            for callable_id in imported.callables:
                _C.unregister_callable(callable_id)

    def core_options(self, name: str, training: bool) -> Any:
        options = _C.CompileOptions()
        options.name = name
        options.disabled_passes = self.options.disabled_passes()
        options.generate = self.options.generate_code
        options.verify = self.options.verify
        options.training = training
        options.max_instances = self.options.max_instances
        options.max_concurrent = self.options.max_concurrent
        options.capture = not self.options.force_eager
        return options

    def describe_inputs(self, gm: fx.GraphModule) -> list[InputInfo]:
        """Kinds and sources of a forward graph's placeholders. AOTAutograd may put effect tokens in front and, for
        aliased inputs, replace some by their base: then the sources are the placeholders' own names."""
        nodes = [node for node in gm.graph.nodes if node.op == "placeholder"]
        context = torch._guards.TracingContext.try_get()
        metadata = context.fw_metadata if context is not None else None
        static = set(metadata.static_input_indices or ()) if metadata is not None else set()
        if len(nodes) != len(self.placeholders):
            return [InputInfo("static" if i in static else "user", node.name) for i, node in enumerate(nodes)]
        return [_describe_input(node, i in static) for i, node in enumerate(self.placeholders)]


def _describe_input(node: fx.Node, is_static: bool) -> InputInfo:
    source = getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", None)
    text = name() if callable(name) else (name or node.name)
    value = node.meta.get("example_value")
    if isinstance(value, torch.nn.Parameter):
        return InputInfo("parameter", text)
    return InputInfo("static" if is_static else "user", text)


def _positions(kinds: Sequence[str], kind: str) -> list[int]:
    return [i for i, found in enumerate(kinds) if found == kind]


def _name_of(gm: fx.GraphModule) -> str:
    """The class of the outermost module, or else the function, that Dynamo was compiling."""
    for node in gm.graph.nodes:
        modules = list((node.meta.get("nn_module_stack") or {}).values())
        if modules:
            kind = modules[0][1]
            return kind.rsplit(".", 1)[-1] if isinstance(kind, str) else kind.__name__
    for node in gm.graph.nodes:
        source = source_line(node, outermost=True)
        if source:
            return source.rsplit(" in ", 1)[-1]
    return "graph"


def _warn_partitions(partitions: Sequence[Any]) -> None:
    if not partitions:
        return
    first = partitions[0]
    more = f" (and {len(partitions) - 1} more: see artifact.partitions)" if len(partitions) > 1 else ""
    where = f" at {first.source}" if first.source else ""
    warnings.warn(
        f"npugraph_ex: {first.target}{where} runs in Python between captured tasks{more}: {first.reason}",
        NpugraphWarning,
        stacklevel=2,
    )


def _run_as_it_is(gm: fx.GraphModule, name: str, error: Exception) -> Callable[..., Any]:
    _C.count("fallbacks")
    warnings.warn(
        f"npugraph_ex: {name} runs uncaptured, operator by operator, because compiling it failed. Please report this: "
        f"{type(error).__name__}: {error}",
        DefectWarning,
        stacklevel=2,
    )
    return make_boxed_func(gm.forward)


def _with_objects(run: Any, imported: Imported) -> Callable[..., Any]:
    """Takes inputs that no task can carry out of the list, for Python tasks to find, and puts such outputs into the
    result."""

    def call(args: list[Any]) -> Any:
        with imported.objects.of_one_run() as values:
            for index, name in reversed(imported.object_inputs):
                values[name] = args.pop(index)
            results = list(run(args))
            for index, name in imported.object_outputs:
                results[index] = values[name]
            return results

    call._boxed_call = True
    return call


# An input in a storage that several inputs share: its position, that of the first of them, offset, and bytes of the
# storage.
_Shared = tuple[int, int, int, int]


def _shared_storages(inputs: Sequence[Any]) -> list[_Shared]:
    """The inputs that share a storage. AOTAutograd compiles written ones as windows at fixed places in one base."""
    first: dict[int, int] = {}
    shared: dict[int, _Shared] = {}
    for index, tensor in enumerate(inputs):
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
            continue
        leader = first.setdefault(tensor.untyped_storage()._cdata, index)
        if leader != index:
            shared[leader] = _place(inputs, leader, leader)
            shared[index] = _place(inputs, index, leader)
    return list(shared.values())


def _place(inputs: Sequence[Any], index: int, leader: int) -> _Shared:
    return index, leader, inputs[index].storage_offset(), inputs[index].untyped_storage().nbytes()


def _lies_as(inputs: Sequence[Any], shared: Sequence[_Shared]) -> bool:
    """Whether the inputs share storages as those of the compile did."""
    return all(
        _place(inputs, place[0], place[1]) == place
        and inputs[place[0]].untyped_storage()._cdata == inputs[place[1]].untyped_storage()._cdata
        for place in shared
    )


def _with_eager_fallback(
    compiled: Callable[..., Any], gm: fx.GraphModule, shared: Sequence[_Shared]
) -> Callable[..., Any]:
    """Inputs that are written and overlap others in a way that nobody saw at compile time, that no longer overlap as
    they did, or that lie elsewhere in a storage of which the graph names places: run the graph as it was written."""
    eager = torch._dynamo.disable(gm.forward, reason="npugraph_ex: inputs lie in memory as they did not before")

    def call(*args: Any) -> Any:
        reason = "overlapping_inputs"
        if not shared or _lies_as(args, shared):
            try:
                return compiled(*args)
            except _C.InputsOverlap:  # nothing has run
                pass
            except _C.InputElsewhere:  # nor here
                reason = "shifted_inputs"
        _C.count(reason)
        return eager(*args)

    return torch._dynamo.disable(call, reason="do not trace compiled graphs")
