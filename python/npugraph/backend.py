# SPDX-License-Identifier: Apache-2.0
"""The backend of ``torch.compile``, by its names ``npugraph_ex`` and ``npugraph``. ``driver/pipeline.py`` lists the
steps that follow."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from npugraph import _C, counters, guards
from npugraph.artifact import registry
from npugraph.driver.eager_fallbacks import while_streams_differ
from npugraph.driver.entry import Entry, Route, Work, named_inputs
from npugraph.driver.fx_compiler import _NpuFxCompiler
from npugraph.driver.installs import install
from npugraph.driver.pipeline import compile_graph
from npugraph.driver.refusals import for_the_user, noted, refuse_release_with_gradients
from npugraph.driver.routes import Decompositions
from npugraph.driver.steps import Target
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


# A tool that runs a program under other options than its own sets this function. It is called with the function that
# compiles a graph, and with the arguments of that function.
interposer: Callable[..., Callable[..., Any]] | None = None


def compile_dynamo_graph(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    config: CompilerConfig,
    decompositions: Decompositions | None = None,
    target: Target | None = None,
) -> Callable[..., Any]:
    """Compiles the graph that Dynamo gives to a backend, for ``target`` or else for the target "Graph". AOTAutograd
    gets ``decompositions``."""
    with noted(backend_of(config)):
        compile_it = functools.partial(_compile_dynamo_graph, target=target)
        if interposer is not None:
            return interposer(compile_it, gm, example_inputs, config, decompositions)
        return compile_it(gm, example_inputs, config, decompositions)


def _compile_dynamo_graph(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    config: CompilerConfig,
    decompositions: Decompositions | None,
    target: Target | None,
) -> Callable[..., Any]:
    _C.ensure_counters()
    guards.install()
    refuse_release_with_gradients(config)
    check_scopes(gm)
    hints.check_operators(gm, target.computes if target else lambda operator: False)
    with _garbage_left_alone(), kept_whole():
        return _NpuFxCompiler(config, decompositions or {}, target)._get_compiled_gm(gm, example_inputs).run


def compile_operators(gm: fx.GraphModule, config: CompilerConfig, target: Target | None = None) -> Callable[..., Any]:
    """Compiles a graph of ATen operators into a function of its inputs, for ``target`` or else for the target "Graph".
    Streams and events become strands, as in a graph of Dynamo, as long as Dynamo still knows them."""
    _C.ensure_counters()
    own = fx.GraphModule(gm, copy.deepcopy(gm.graph))
    unwrap_control_deps(own)
    streams = mark_streams(own) if has_streams(own) else []
    with _garbage_left_alone():
        entry = Entry(gm, [], config, "compile", target)
        run = compile_graph(Work(entry, own, entry.name, named_inputs(gm), Route.RECORDED))
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
