# SPDX-License-Identifier: Apache-2.0
"""From Dynamo's graph to graphs of ATen operators, which are then compiled.

For inference, npugraph's own recorder is tried first, because it takes a sixth of the time of AOTAutograd. Graphs that
it refuses go through AOTAutograd.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext, detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import _disable_current_modes

from npugraph.driver.eager_fallbacks import eagerly, while_places_hold
from npugraph.driver.entry import CompiledGraph, Entry, OperatorGraph, Route, named_inputs
from npugraph.driver.pipeline import compile_graph
from npugraph.fx.decompose.triton_wrappers import name_kernels
from npugraph.fx.dynamo.as_written import why_as_written
from npugraph.fx.dynamo.callers import Caller
from npugraph.fx.dynamo.carried_writes import CannotCarry, carry_writes
from npugraph.fx.dynamo.record import NotRecorded, record
from npugraph.fx.passes.pipeline import has_joint_rules, run_joint_rules
from npugraph.fx.result_places import description
from npugraph.fx.streams.stream_marks import drop_marks, has_marks, marks
from npugraph.fx.true_fakes import true_fake_results
from npugraph.log import logger
from npugraph.stored import torch_caches
from npugraph.stored.graphs import Parts

Decompositions = Mapping[torch._ops.OpOverload, Callable[..., Any]]


def compile_entry(entry: Entry, example_inputs: Sequence[Any], decompositions: Decompositions) -> CompiledGraph:
    """Compiles Dynamo's graph and returns a function of its inputs."""
    name_kernels(entry.gm.graph)
    try:
        if decompositions:
            raise NotRecorded("decompositions")
        if torch_caches.is_cached():
            raise NotRecorded("AOTAutograd has the cache of compiled graphs")
        recorded = record(entry.gm)
    except NotRecorded as reason:
        logger.debug("%s goes through AOTAutograd: %s", entry.name, reason)
        return _through_aot_autograd(entry, example_inputs, decompositions)
    inputs = entry.describe_inputs(recorded)
    compiled = compile_graph(OperatorGraph(entry, recorded, entry.name, inputs, Route.RECORDED))
    _note_caller(entry, compiled)
    return compiled


def _through_aot_autograd(entry: Entry, example_inputs: Sequence[Any], decompositions: Decompositions) -> CompiledGraph:
    marks()  # so that they are not dead code
    compilers = _Compilers(entry)
    if (found := why_as_written(entry.gm.graph)) is not None:
        logger.debug("%s runs operator by operator: %s", entry.name, found.text)
        return _operator_by_operator(entry, found.counter)
    try:
        gm = carry_writes(entry.gm)
    except CannotCarry as reason:
        logger.debug("%s runs operator by operator: control flow writes %s", entry.name, reason)
        return _operator_by_operator(entry, "overlapping_inputs")
    is_cached = torch_caches.is_cached()
    mark = torch_caches.cacheable if is_cached else (lambda compiler: compiler)
    compile_all = aot_autograd(
        fw_compiler=mark(compilers.forward),
        bw_compiler=mark(compilers.backward),
        inference_compiler=mark(compilers.inference),
        decompositions=dict(decompositions),
        keep_inference_input_mutations=True,
        partition_fn=compilers.partition,
    )
    if not is_cached:
        with _tracing(example_inputs), true_fake_results():
            compiled = compile_all(gm, example_inputs)
        run = while_places_hold(compiled, entry.gm, example_inputs) if entry.depends_on_places else compiled
        return CompiledGraph(run, compilers.parts)
    with torch_caches.keyed(gm, entry.config, decompositions), true_fake_results():
        compiled = compile_all(gm, example_inputs)
    # A graph of the cache does not say whether it depends on places.
    run = torch_caches.serializable(while_places_hold(compiled, entry.gm, example_inputs), compiled)
    return CompiledGraph(run, compilers.parts)


def _operator_by_operator(entry: Entry, reason: str) -> CompiledGraph:
    return CompiledGraph(functools.partial(eagerly(entry.gm), reason))


def _tracing(inputs: Sequence[Any]) -> contextlib.AbstractContextManager[Any]:
    """A context in which AOTAutograd leaves its description of a graph. Dynamo has opened one before it calls us."""
    if TracingContext.try_get() is not None:
        return contextlib.nullcontext()
    return torch._guards.tracing(TracingContext(detect_fake_mode(inputs) or FakeTensorMode()))


def _is_plain(entry: Entry, gm: fx.GraphModule) -> bool:
    """Whether calls of a graph for inference do nothing but run ``gm``, so that AOTAutograd takes no part in them."""
    facts = description()
    if facts is None:
        return False
    beside = facts.num_mutated_inp_runtime_indices + facts.num_outputs_aliased + len(facts.tokens)
    inputs, outputs = gm.graph.find_nodes(op="placeholder"), gm.graph.output_node().args[0]
    is_same = len(inputs) == len(entry.placeholders) and len(outputs) == len(entry.gm.graph.output_node().args[0])
    return is_same and not beside and not facts.is_rng_op_functionalized


def _note_caller(entry: Entry, compiled: CompiledGraph) -> None:
    """Notes who calls the Program of ``compiled``. Calls of the whole graph do nothing but run it."""
    if compiled.parts is not None:
        compiled.parts.artifact.caller = Caller.of(entry.gm)


class _Compilers:
    """The functions that AOTAutograd calls. ``parts`` are those of the whole graph, if AOTAutograd takes no part in its
    calls."""

    def __init__(self, entry: Entry) -> None:
        self.parts: Parts | None = None
        self._entry = entry
        self._is_cached = torch_caches.is_cached()

    def inference(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        is_plain = _is_plain(self._entry, gm)
        compiled = self._compile(gm, Route.INFERENCE)
        if is_plain:
            self.parts = compiled.parts
            _note_caller(self._entry, compiled)
        return self._finished(compiled)

    def forward(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        # The backward graph must not reuse the memory of what was saved for it: it may run again (retain_graph=True).
        TracingContext.get().fw_metadata.bw_donated_idxs = []
        return self._finished(self._compile(gm, Route.FORWARD))

    def backward(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        self._entry.started = time.perf_counter()
        compiled = self._compile(gm, Route.BACKWARD)
        if self._is_cached:
            return self._finished(compiled)

        # AOTAutograd wraps what it gets here, and the wrapper copies attributes of Python functions only.
        def call(args: list[Any]) -> Any:
            return compiled.run(args)

        call._boxed_call = True
        return call

    def partition(self, joint: fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
        """Applies the rules for joint graphs, and then cuts the graph in two. Operators that the backward graph
        computes again cannot be between marks of streams, so a graph with such operators loses its marks."""
        from torch._functorch.partitioners import default_partition, has_recomputable_ops

        if has_joint_rules(self._entry.config):
            with _disable_current_modes():
                run_joint_rules(joint, self._entry.config, self._entry.joint_notes)
        if has_marks(joint.graph) and has_recomputable_ops(joint):
            drop_marks(joint.graph)
        return default_partition(joint, inputs, **kwargs)

    def _compile(self, gm: fx.GraphModule, route: Route) -> CompiledGraph:
        name = f"{self._entry.name}.{route.phase}" if route.training else self._entry.name
        inputs = named_inputs(gm) if route is Route.BACKWARD else self._entry.describe_inputs(gm)
        return compile_graph(OperatorGraph(self._entry, gm, name, inputs, route))

    def _finished(self, compiled: CompiledGraph) -> Callable[..., Any]:
        return torch_caches.StoredCode(*compiled) if self._is_cached else compiled.run
