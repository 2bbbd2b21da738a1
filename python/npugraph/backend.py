# SPDX-License-Identifier: Apache-2.0
"""The backend ``npugraph_ex`` of ``torch.compile``."""

from __future__ import annotations

import contextlib
import copy
import enum
import functools
import gc
import inspect
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import BackendCompilerFailed, ShortenTraceback, TorchDynamoException
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils._python_dispatch import _disable_current_modes

from npugraph import _C, counters, guards, run_options, serialize
from npugraph.artifact import Artifact, Owners, registry
from npugraph.debug.compiles import Compiles
from npugraph.defects import report_defect
from npugraph.error_notes import add_note
from npugraph.forget import forget_compiles
from npugraph.fx import input_writes, recurrent
from npugraph.fx.collectives import finish_collectives
from npugraph.fx.control_deps import unwrap_control_deps
from npugraph.fx.expand import expand
from npugraph.fx.graph_names import class_of_traced_module, name_of
from npugraph.fx.importer import Imported, InputInfo, import_graph
from npugraph.fx.module_paths import module_paths
from npugraph.fx.pieces import Pieces, is_apart, is_captured
from npugraph.fx.pipeline import CustomPassError, Notes, has_joint_rules, run_joint_rules, run_passes
from npugraph.fx.prepare import prepare
from npugraph.fx.record import NotRecorded, record
from npugraph.fx.release_weights import Release, derive
from npugraph.fx.scope_keys import settle_keys
from npugraph.fx.scopes import ScopeError, check_scopes, strict_scopes
from npugraph.fx.sections import Lanes, mark_sections
from npugraph.fx.stream_marks import drop_marks, has_marks, marks
from npugraph.fx.streams import are_different, has_streams, mark_streams
from npugraph.fx.whole_operators import kept_whole
from npugraph.log import logger
from npugraph.options import CompilerConfig, disabled_passes, parse, refuse_beside_config
from npugraph.warning_kinds import NpugraphWarning


class Route(enum.Enum):
    """How a graph came here, which says what its compiled function is."""

    RECORDED = enum.auto()  # by us, for inference: a function of the inputs
    INFERENCE = enum.auto()  # through AOTAutograd, as the others: a boxed function
    FORWARD = enum.auto()
    BACKWARD = enum.auto()

    @property
    def training(self) -> bool:
        return self in (Route.FORWARD, Route.BACKWARD)

    @property
    def phase(self) -> str:
        return "backward" if self is Route.BACKWARD else "forward"

    @property
    def kind(self) -> str:
        return self.phase if self.training else "inference"

    @property
    def front_end(self) -> str:
        return "record" if self is Route.RECORDED else "aot_autograd"


class OptionValueError(ShortenTraceback, ValueError):
    """A ``ValueError`` that torch.compile hands to the user as it is, without its own frames."""


class OptionPathError(ShortenTraceback, FileNotFoundError):
    """A ``FileNotFoundError`` that torch.compile hands to the user as it is, without its own frames."""


class OptionTypeError(ShortenTraceback, TypeError):
    """A ``TypeError`` that torch.compile hands to the user as it is, without its own frames."""


class OptionRuntimeError(ShortenTraceback):
    """A ``RuntimeError`` that torch.compile hands to the user as it is, without its own frames."""


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
    the wrong type, ``RuntimeError`` for what super kernels cannot be told.
    """
    return compile_dynamo_graph(gm, example_inputs, checked(options, mode))


def checked(options: Mapping[str, Any] | None, mode: str | None = None) -> CompilerConfig:
    """The options of a user of ``torch.compile``."""
    return _for_the_user(lambda: parse(options, mode))


def refuse_arguments(mode: str | None, options: Mapping[str, Any] | None) -> None:
    """``ValueError`` for what ``torch.compile`` was given beside a backend that has its options already."""
    _for_the_user(lambda: refuse_beside_config(mode, options))


def _for_the_user(check: Callable[[], Any]) -> Any:
    """What ``check`` gives. The user of ``torch.compile`` is to see what it raises without torch's own frames."""
    try:
        return check()
    except (TypeError, ValueError, FileNotFoundError, RuntimeError) as error:
        kinds = {TypeError: OptionTypeError, FileNotFoundError: OptionPathError, RuntimeError: OptionRuntimeError}
        kind = kinds.get(type(error), OptionValueError)
        refusal = kind(str(error), first_useful_frame=inspect.currentframe())
        add_note(refusal)
        raise refusal from None


def compile_dynamo_graph(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    config: CompilerConfig,
    decompositions: Mapping[torch._ops.OpOverload, Callable[..., Any]] | None = None,
) -> Callable[..., Any]:
    """Compiles what Dynamo gives a backend. ``decompositions`` is handed to AOTAutograd."""
    try:
        if interposer is not None:
            return interposer(_compile_dynamo_graph, gm, example_inputs, config, decompositions)
        return _compile_dynamo_graph(gm, example_inputs, config, decompositions)
    except ShortenTraceback as error:
        add_note(error)
        raise
    except CustomPassError as error:  # as Dynamo would raise it, who drops notes
        failed = BackendCompilerFailed(npugraph_ex, error, inspect.currentframe())
        add_note(failed)
        raise failed.with_traceback(error.__traceback__) from None


# Of a tool that runs a program under other options than its own: called with what compiles a graph, and its arguments.
interposer: Callable[..., Callable[..., Any]] | None = None


def _compile_dynamo_graph(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    config: CompilerConfig,
    decompositions: Mapping[torch._ops.OpOverload, Callable[..., Any]] | None,
) -> Callable[..., Any]:
    _C.ensure_counters()
    guards.install()
    if config.release_original_weights.value and torch.is_grad_enabled():
        raise OptionValueError(
            "option 'release_original_weights' of backend 'npugraph_ex' needs torch.no_grad() or inference_mode(), got "
            "a call with gradients on: a backward pass would need the weights",
            first_useful_frame=inspect.currentframe(),
        )
    check_scopes(gm)
    with _garbage_left_alone(), kept_whole():
        return _compile(gm, example_inputs, config, decompositions or {})


def compile_operators(gm: fx.GraphModule, config: CompilerConfig) -> Callable[..., Any]:
    """Compiles a graph of ATen operators into a function of its inputs. Streams and events become lanes, as in a graph
    of Dynamo's, while Dynamo knows them."""
    _C.ensure_counters()
    own = fx.GraphModule(gm, copy.deepcopy(gm.graph))
    unwrap_control_deps(own)
    streams = mark_streams(own) if has_streams(own) else []
    infos = [InputInfo("user", node.name) for node in gm.graph.find_nodes(op="placeholder")]
    with _garbage_left_alone():
        compile_ = _Compile(gm, [], config, "compile")
        run = compile_.compile(own, compile_.name, infos, Route.RECORDED)
    return run if len(streams) < 2 else _while_different(run, gm, streams)


def _compile(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    config: CompilerConfig,
    decompositions: Mapping[torch._ops.OpOverload, Callable[..., Any]],
) -> Callable[..., Any]:
    compile_ = _Compile(gm, example_inputs, config)
    streams = mark_streams(gm) if has_streams(gm) else []
    run = _compile_marked(compile_, gm, example_inputs, decompositions)
    return run if len(streams) < 2 else _while_different(run, gm, streams)


def _compile_marked(
    compile_: _Compile,
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    decompositions: Mapping[torch._ops.OpOverload, Callable[..., Any]],
) -> Callable[..., Any]:
    try:
        if decompositions:
            raise NotRecorded("decompositions")
        recorded = record(gm)
    except NotRecorded as reason:
        logger.debug("%s goes through AOTAutograd: %s", compile_.name, reason)
    else:
        return compile_.recorded(recorded)
    marks()  # keeps them from being dead
    compiled = aot_autograd(
        fw_compiler=compile_.forward,
        bw_compiler=compile_.backward,
        inference_compiler=compile_.inference,
        decompositions=dict(decompositions),
        keep_inference_input_mutations=True,
        partition_fn=compile_.partition,
    )(gm, example_inputs)
    if not compile_.depends_on_places:
        return compiled
    return _with_eager_fallback(compiled, gm, _shared_storages(example_inputs))


@contextlib.contextmanager
def _garbage_left_alone() -> Iterator[None]:
    """A compile makes many objects that stay, so collections of garbage in it find little: a tenth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _reset() -> None:
    registry.clear()
    counters.forget()


npugraph_ex.reset = _reset
input_writes.writes_in_order(npugraph_ex)
input_writes.install()
recurrent.install()
counters.install()
serialize.install()
if "BREAK_GRAPH_OP_LIST" in os.environ:
    from npugraph import graph_breaks

    graph_breaks.install()
if torch.distributed.is_available():
    from npugraph.fx import traceable

    traceable.install()
    if torch.distributed.is_initialized():
        from npugraph import npu_define  # noqa: F401 (defines operators)


def reset() -> None:
    """Forgets every compiled function and frees what it holds; the next call compiles again."""
    torch._dynamo.reset()
    _reset()
    forget_compiles()
    gc.collect()
    _C.drop_unused_code()


class _Compile:
    """One entry of the backend: the graphs that become of one Dynamo graph."""

    def __init__(
        self, gm: fx.GraphModule, example_inputs: Sequence[Any], config: CompilerConfig, kind: str = "model"
    ) -> None:
        self.config = config
        self.compiles = Compiles(kind, gm)
        self.started = time.perf_counter()
        self.gm = gm
        self.placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        self.name = config.name.value or registry.unique_name(name_of(gm))
        self.traced_module = class_of_traced_module()
        self.depends_on_places = False  # of inputs in memory: relative to each other, or in their storages
        self.owners = Owners()
        self.joint_notes = Notes()
        self.weights = _weights_by_position(example_inputs) if config.release_original_weights.value else {}

    def recorded(self, gm: fx.GraphModule) -> Callable[..., Any]:
        """Of the operators of the whole graph: a function of Dynamo's inputs, not of one list."""
        return self.compile(gm, self.name, self.describe_inputs(gm), Route.RECORDED)

    def inference(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return self.compile(gm, self.name, self.describe_inputs(gm), Route.INFERENCE)

    def partition(self, joint: fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
        """Cuts a joint graph in two, after the rules for such graphs. What is computed anew in the backward graph
        cannot stand between marks of streams: then there are none."""
        from torch._functorch.partitioners import default_partition, has_recomputable_ops

        if has_joint_rules(self.config):
            with _disable_current_modes():
                run_joint_rules(joint, self.config, self.joint_notes)
        if has_marks(joint.graph) and has_recomputable_ops(joint):
            drop_marks(joint.graph)
        return default_partition(joint, inputs, **kwargs)

    def forward(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        # The backward graph does not reuse what was saved for it, so that it may run again (retain_graph=True).
        torch._guards.TracingContext.get().fw_metadata.bw_donated_idxs = []
        return self.compile(gm, f"{self.name}.forward", self.describe_inputs(gm), Route.FORWARD)

    def backward(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        self.started = time.perf_counter()
        infos = [InputInfo("user", node.name) for node in gm.graph.nodes if node.op == "placeholder"]
        run = self.compile(gm, f"{self.name}.backward", infos, Route.BACKWARD)

        # AOTAutograd wraps what it gets here, and the wrapper copies attributes of Python functions only.
        def call(args: list[Any]) -> Any:
            return run(args)

        call._boxed_call = True
        return call

    def compile(self, gm: fx.GraphModule, name: str, inputs: list[InputInfo], route: Route) -> Callable[..., Any]:
        entered = time.perf_counter()
        observer = self.compiles.observer(name, route.phase)
        if self.config.dump_tensor_data.value and self.config.data_dump_stage.value == "original":
            self.add_dumps(gm)
            run = _labelled("fx_run_eagerly", gm.forward)
            return run if route is Route.RECORDED else make_boxed_func(run)
        with _disable_current_modes():
            self.sections(gm, route)  # for passes that ask whether nodes belong together
            notes = run_passes(gm, self.config, observer)
            self.sections(gm, route)  # passes may have left scopes that do not pair
            _warn_keys(settle_keys(gm))
        if route is Route.FORWARD:
            notes.stages = self.joint_notes.stages | notes.stages
            notes.replacements[:0] = self.joint_notes.replacements
        if self.config.dump_tensor_data.value and not self.config.super_kernel_optimize.value:
            self.add_dumps(gm)
        passed = time.perf_counter()
        try:
            # Constants are real tensors, so the front end's fake tensors must not catch what is done with them.
            with _disable_current_modes():
                gm = finish_collectives(expand(prepare(gm)), of_gradients=route is Route.BACKWARD)
                released = self.derive_from_weights(gm, inputs)
                lanes = self.sections(gm, route)
                imported = import_graph(gm, name, inputs, lanes, functools.partial(self.compile_nested, route))
                front_end = [
                    (route.front_end, (entered - self.started) * 1e3),
                    ("fx", (passed - entered) * 1e3),
                    ("import", (time.perf_counter() - passed) * 1e3),
                ]
                core = self.compile_imported(imported, name, route, front_end)
        except TorchDynamoException:
            raise  # asks the front end to start again
        except Exception as error:
            report_defect(name, error, gm)
            return gm.forward if route is Route.RECORDED else make_boxed_func(gm.forward)
        _check_cuts(core, self.config, gm)
        released.carry_out(name)
        notes.streams = lanes.streams if lanes else []
        artifact = Artifact(
            core,
            self.config.as_dict(),
            imported.callables,
            released.sizes(),
            notes,
            module_paths(gm, self.traced_module),
            imported.nested,
        )
        registry.add(artifact)
        with _disable_current_modes():
            has_python = bool(imported.partitions or imported.object_inputs)
            observer.compiled(artifact, gm, [info.source for info in inputs], has_python)
        _warn_partitions(imported.partitions)
        positional = route is Route.RECORDED and imported.objects is None
        run = core.callable(boxed=not positional)
        run.owner = artifact
        run.options = run_options.given(self.config)
        artifact.runs_as(run)
        self.owners.add(artifact)
        if route is not Route.BACKWARD:
            self.watch_model(run, inputs, imported)
        if core.writes_inputs() or imported.names_places:
            self.depends_on_places = True
            if positional:
                run.fall_back_on(_eagerly(self.gm))
        if any(map(is_apart, gm.graph.nodes)):
            pieces = Pieces(gm, functools.partial(self.compile_piece, artifact, _by_name(gm, inputs)))
            run = _in_pieces_where_captured(run, pieces, positional)
        run = observer.watch(run, artifact)
        if self.config.deadlock_check.value:
            from npugraph.deadlock.capture import checked as checked_for_deadlocks

            run = checked_for_deadlocks(run, artifact)
        artifact.needs_python = imported.objects is not None or not isinstance(run, _C.Callable)
        if imported.objects is None:
            return run
        boxed = _with_objects(run, imported)
        return (lambda *args: boxed(list(args))) if route is Route.RECORDED else boxed

    def sections(self, gm: fx.GraphModule, route: Route) -> Lanes | None:
        """A backward graph runs on one stream: the program says nothing about its order."""
        return None if route is Route.BACKWARD else mark_sections(gm)

    def add_dumps(self, gm: fx.GraphModule) -> None:
        from npugraph.fx.tensor_dumps import add_dumps

        add_dumps(gm, self.config.data_dump_dir.value)

    def compile_piece(
        self, whole: Artifact, inputs: Mapping[str, InputInfo], piece: fx.GraphModule, piece_name: str
    ) -> Callable[..., Any] | None:
        """A piece of the graph of ``whole``, which has ``inputs``. None where it has to run as torch made it."""
        name = f"{whole.name}.{piece_name}"
        infos = [
            inputs.get(node.name, InputInfo("user", node.name)) for node in piece.graph.find_nodes(op="placeholder")
        ]
        entered = time.perf_counter()
        try:
            with _disable_current_modes():
                compile_nested = functools.partial(self.compile_nested, Route.RECORDED)
                imported = import_graph(piece, name, infos, compile_nested=compile_nested)
                front_end = [("import", (time.perf_counter() - entered) * 1e3)]
                core = self.compile_imported(imported, name, Route.RECORDED, front_end)
        except Exception as error:
            report_defect(name, error, piece)
            return None
        if imported.objects is not None:
            return None
        whole.add_piece(core)
        run = core.callable(boxed=False)
        run.fall_back_on(_eagerly(piece))
        return run

    def compile_nested(self, route: Route, imported: Imported, name: str) -> Artifact:
        """Of a graph that control flow of another one runs."""
        options = self.core_options(name, route)
        options.run = run_options.nested_run_options(self.config)
        core = self.compile_core(imported, options, [])
        paths = module_paths(imported.gm, self.traced_module)
        artifact = Artifact(core, self.config.as_dict(), imported.callables, {}, Notes(), paths, imported.nested)
        registry.add(artifact)
        self.owners.add(artifact)
        return artifact

    def derive_from_weights(self, gm: fx.GraphModule, inputs: Sequence[InputInfo]) -> Release:
        nodes = [node for node in gm.graph.nodes if node.op == "placeholder"]
        if not self.weights or len(nodes) != len(self.placeholders):
            return Release()
        weights = {nodes[i]: tensor for i, tensor in self.weights.items()}
        return derive(gm, weights, {nodes[i]: inputs[i].source for i in self.weights})

    def watch_model(self, run: Any, inputs: Sequence[InputInfo], imported: Imported) -> None:
        """Puts the artifacts to sleep when the model is gone that ``run`` last ran with."""
        kinds = [info.kind for i, info in enumerate(inputs) if i not in dict(imported.object_inputs)]
        # A cache with static addresses may outlive the model, so what is not a parameter counts only where none is.
        of_model = _positions(kinds, "parameter") or _positions(kinds, "static")
        if of_model:
            self.owners.watch(run, of_model)

    def compile_imported(self, imported: Imported, name: str, route: Route, front_end: list[tuple[str, float]]) -> Any:
        return self.compile_core(imported, self.core_options(name, route), front_end)

    def compile_core(self, imported: Imported, options: Any, front_end: list[tuple[str, float]]) -> Any:
        try:
            return _C.Artifact.compile(imported.graph, options, imported.partitions, front_end)
        finally:
            # Tasks hold their callables themselves.
            for callable_id in imported.callables:
                _C.unregister_callable(callable_id)

    def core_options(self, name: str, route: Route) -> Any:
        options = _C.CompileOptions()
        options.name = name
        options.disabled_passes = disabled_passes(self.config)
        options.generate = self.config.generate_code.value
        options.place_parts = self.config.remove_cat_ops.value
        options.verify = self.config.verify.value
        options.training = route.training
        options.super_kernels = self.config.super_kernel_optimize.value
        options.super_kernel_workers = sum((self.config.super_kernel_debug_options.value or {}).values())
        options.run = run_options.run_options(self.config, route.kind)
        return options

    def describe_inputs(self, gm: fx.GraphModule) -> list[InputInfo]:
        """Kinds and sources of a forward graph's placeholders. AOTAutograd may put effect tokens in front and, for
        aliased inputs, replace some by their base: then the sources are the placeholders' own names."""
        nodes = [node for node in gm.graph.nodes if node.op == "placeholder"]
        if len(nodes) != len(self.placeholders):
            return [InputInfo("user", node.name) for node in nodes]
        return [_describe_input(node) for node in self.placeholders]


def _describe_input(node: fx.Node) -> InputInfo:
    source = getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", None)
    text = name() if callable(name) else (name or node.name)
    if isinstance(node.meta.get("example_value"), torch.nn.Parameter):
        return InputInfo("parameter", text)
    # Dynamo marks the tensors whose address it takes for fixed: those of modules, and caches with static addresses.
    is_static = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
    return InputInfo("static" if is_static else "user", text)


def _positions(kinds: Sequence[str], kind: str) -> list[int]:
    return [i for i, found in enumerate(kinds) if found == kind]


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


def _warn_keys(texts: Sequence[str]) -> None:
    for text in texts:
        warnings.warn(text, NpugraphWarning, stacklevel=2)


def _check_cuts(core: Any, config: CompilerConfig, gm: fx.GraphModule) -> None:
    """``ScopeError`` where a super kernel scope that has to be one task is not."""
    if not config.super_kernel_optimize.value:
        return
    all_strict = (config.super_kernel_optimize_options.value or {}).get("strict-scope-check") == "abort"
    strict = strict_scopes(gm.graph)
    for scope, tasks, _, cuts in core.scopes():
        if cuts and (all_strict or scope in strict):
            raise ScopeError(
                f"super kernel scope {scope!r} has strict-scope-check=abort, and {len(cuts)} of its {tasks} tasks "
                f"cannot be part of a super kernel, because they are not generated code: {', '.join(cuts)}",
                first_useful_frame=None,
            )


def _by_name(gm: fx.GraphModule, inputs: Sequence[InputInfo]) -> dict[str, InputInfo]:
    return dict(zip((node.name for node in gm.graph.find_nodes(op="placeholder")), inputs, strict=True))


def _in_pieces_where_captured(run: Any, pieces: Pieces, positional: bool) -> Callable[..., Any]:
    if positional:
        return lambda *args: pieces(*args) if is_captured() else run(*args)

    def call(args: list[Any]) -> Any:
        if not is_captured():
            return run(args)
        inputs = list(args)
        args.clear()
        return pieces(*inputs)

    call._boxed_call = True
    return call


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


def _weights_by_position(inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
    """The parameters whose memory no other input has."""
    shared = {place[0] for place in _shared_storages(inputs)}
    return {i: t for i, t in enumerate(inputs) if isinstance(t, torch.nn.Parameter) and i not in shared}


def _place(inputs: Sequence[Any], index: int, leader: int) -> _Shared:
    return index, leader, inputs[index].storage_offset(), inputs[index].untyped_storage().nbytes()


def _lies_as(inputs: Sequence[Any], shared: Sequence[_Shared]) -> bool:
    """Whether the inputs share storages as those of the compile did."""
    return all(
        _place(inputs, place[0], place[1]) == place
        and inputs[place[0]].untyped_storage()._cdata == inputs[place[1]].untyped_storage()._cdata
        for place in shared
    )


def _eagerly(gm: fx.GraphModule) -> Callable[..., Any]:
    """Runs the graph as it was written, for inputs that are written and overlap others in a way that nobody saw at
    compile time, that no longer overlap as they did, or that lie elsewhere in a storage of which the graph names
    places; and for streams of which two have become one."""
    eager = torch._dynamo.disable(gm.forward, reason="npugraph_ex: inputs or streams are not as they were before")
    eager = _labelled("fx_run_eagerly", eager)

    def call(reason: str, *args: Any) -> Any:
        _C.count(reason)
        return eager(*args)

    return call


def _labelled(label: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a range in traces of torch's profiler where one is on."""

    def call(*args: Any) -> Any:
        with torch.profiler.record_function(label) if torch.autograd._profiler_enabled() else contextlib.nullcontext():
            return function(*args)

    return call


def _while_different(run: Callable[..., Any], gm: fx.GraphModule, streams: Sequence[int]) -> Callable[..., Any]:
    """Work of two streams is in order where both are one in a call, as where a function that names a stream is called
    on it."""
    eagerly = _eagerly(gm)

    def call(*args: Any) -> Any:
        return run(*args) if are_different(streams) else eagerly("merged_streams", *args)

    return torch._dynamo.disable(call, reason="do not trace compiled graphs")


def _with_eager_fallback(
    compiled: Callable[..., Any], gm: fx.GraphModule, shared: Sequence[_Shared]
) -> Callable[..., Any]:
    eagerly = _eagerly(gm)

    def call(*args: Any) -> Any:
        reason = "overlapping_inputs"
        if not shared or _lies_as(args, shared):
            try:
                return compiled(*args)
            except _C.InputsOverlap:  # nothing has run
                pass
            except _C.InputElsewhere:  # nor here
                reason = "shifted_inputs"
        return eagerly(reason, *args)

    return torch._dynamo.disable(call, reason="do not trace compiled graphs")
