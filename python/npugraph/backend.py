# SPDX-License-Identifier: Apache-2.0
"""The backend of ``torch.compile``, by its names ``npugraph_ex`` and ``npugraph``. ``driver/pipeline.py`` lists the
steps that follow."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from npugraph import _C, counters, guards
from npugraph.artifact import registry
from npugraph.driver.eager_fallbacks import while_streams_differ
from npugraph.driver.entry import CompiledGraph, Entry, OperatorGraph, Route, Target, named_inputs
from npugraph.driver.installs import install
from npugraph.driver.pipeline import GRAPH, compile_graph
from npugraph.driver.refusals import for_the_user, noted, refuse_release_with_gradients
from npugraph.driver.routes import Decompositions, compile_entry
from npugraph.forget import forget_compiles
from npugraph.fx import own_backends
from npugraph.fx.dynamo.whole_operators import kept_whole
from npugraph.fx.streams.control_deps import unwrap_control_deps
from npugraph.fx.streams.mark_streams import has_streams, mark_streams
from npugraph.fx.streams.scopes import check_scopes
from npugraph.operator_steps import hints
from npugraph.options import BACKEND, CompilerConfig, backend_of, parse, refuse_beside_config


def npugraph_ex(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compiles Dynamo's graph into captured, replayable Programs: ``torch.compile(fn, backend="npugraph_ex")``.

    With gradients off it makes one Program, with gradients on a forward and a backward Program. Raises ``ValueError``
    for an unknown option (the message lists the known ones) or a value that is not allowed, ``TypeError`` for a value
    of the wrong type, ``RuntimeError`` for settings that super kernels do not have.
    """
    return compile_dynamo_graph(gm, example_inputs, checked(options, mode))


def npugraph(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """``npugraph_ex`` by the name of the project, which messages have. Errors lack the line of Ascend's tools."""
    return compile_dynamo_graph(gm, example_inputs, checked(options, mode, npugraph.__name__))


def checked(options: Mapping[str, Any] | None, mode: str | None = None, backend: str = BACKEND) -> CompilerConfig:
    """Returns the options that a user gave to ``torch.compile``, checked. Errors come without the frames of
    torch.compile. ``backend`` is how messages name the one that compiles."""
    return for_the_user(lambda: parse(options, mode, backend), backend)


def refuse_arguments(mode: str | None, options: Mapping[str, Any] | None, backend: str) -> None:
    """Raises ``ValueError`` for a mode or options of ``torch.compile`` beside a backend that has its options
    already."""
    for_the_user(lambda: refuse_beside_config(mode, options, backend), backend)


# Functions that stand between a backend and ``compile_directly``, the last one outermost. Each is called with the next
# function, and with the graph, its inputs, the options and the decompositions that this function takes.
interposers: list[Callable[..., CompiledGraph]] = []


def compile_dynamo_graph(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    config: CompilerConfig,
    decompositions: Decompositions = MappingProxyType({}),
    target: Target[Any] = GRAPH,
) -> Callable[..., Any]:
    """Compiles the graph that Dynamo gives to a backend, for ``target``. AOTAutograd gets ``decompositions``."""
    compile_it = functools.partial(compile_directly, target=target)
    for interposer in interposers:
        compile_it = functools.partial(interposer, compile_it)
    with noted(backend_of(config)):
        return compile_it(gm, example_inputs, config, decompositions).run


def compile_directly(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    config: CompilerConfig,
    decompositions: Decompositions,
    target: Target[Any] = GRAPH,
) -> CompiledGraph:
    """Compiles the graph that Dynamo gives to a backend, without the interposers."""
    _C.ensure_counters()
    guards.install()
    refuse_release_with_gradients(config)
    check_scopes(gm)
    hints.check_operators(gm, target.computes)
    with _garbage_left_alone(), kept_whole(target.kept()):
        entry = Entry(gm, example_inputs, config, target)
        streams = mark_streams(gm) if has_streams(gm) else []
        run, parts = compile_entry(entry, example_inputs, decompositions)
        guarded = while_streams_differ(run, gm, streams)
        return CompiledGraph(guarded, parts if guarded is run else None)


def compile_operators(gm: fx.GraphModule, config: CompilerConfig, target: Target[Any] = GRAPH) -> Callable[..., Any]:
    """Compiles a graph of ATen operators into a function of its inputs, for ``target``. Streams and events become
    strands, as in a graph of Dynamo, as long as Dynamo still knows them."""
    _C.ensure_counters()
    own = fx.GraphModule(gm, copy.deepcopy(gm.graph))
    unwrap_control_deps(own)
    streams = mark_streams(own) if has_streams(own) else []
    with _garbage_left_alone():
        entry = Entry(gm, [], config, target, "compile")
        run = compile_graph(OperatorGraph(entry, own, entry.name, named_inputs(gm), Route.RECORDED)).run
    return while_streams_differ(run, gm, streams)


@contextlib.contextmanager
def _garbage_left_alone() -> Iterator[None]:
    """Turns off Python's garbage collector during a compile. A compile makes many objects that stay, so collections
    find little, and take a tenth of its time."""
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
    hints.forget()


def reset() -> None:
    """Forgets every compiled function and frees what it holds; the next call compiles again."""
    torch._dynamo.reset()
    _reset()
    forget_compiles()
    gc.collect()
    _C.drop_unused_code()


for _backend in (npugraph_ex, npugraph):
    _backend.reset = _reset  # for torch._dynamo.reset()
    own_backends.mark(_backend)
install()
