# SPDX-License-Identifier: Apache-2.0
"""From Dynamo's graph to graphs of ATen operators, which are then compiled.

For inference, npugraph's own recorder is tried first, because it takes a sixth of the time of AOTAutograd. Graphs that
it refuses go through AOTAutograd.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch.utils._python_dispatch import _disable_current_modes

from npugraph.driver.eager_fallbacks import while_places_hold
from npugraph.driver.entry import Entry, Route, Work, named_inputs
from npugraph.driver.pipeline import compile_graph
from npugraph.fx.decompose.triton_wrappers import name_kernels
from npugraph.fx.dynamo.record import NotRecorded, record
from npugraph.fx.passes.pipeline import has_joint_rules, run_joint_rules
from npugraph.fx.streams.stream_marks import drop_marks, has_marks, marks
from npugraph.log import logger

Decompositions = Mapping[torch._ops.OpOverload, Callable[..., Any]]


def compile_entry(entry: Entry, example_inputs: Sequence[Any], decompositions: Decompositions) -> Callable[..., Any]:
    """Compiles Dynamo's graph and returns a function of its inputs."""
    name_kernels(entry.gm.graph)
    try:
        if decompositions:
            raise NotRecorded("decompositions")
        recorded = record(entry.gm)
    except NotRecorded as reason:
        logger.debug("%s goes through AOTAutograd: %s", entry.name, reason)
        return _through_aot_autograd(entry, example_inputs, decompositions)
    return compile_graph(Work(entry, recorded, entry.name, entry.describe_inputs(recorded), Route.RECORDED))


def _through_aot_autograd(
    entry: Entry, example_inputs: Sequence[Any], decompositions: Decompositions
) -> Callable[..., Any]:
    marks()  # so that they are not dead code
    compilers = _Compilers(entry)
    compiled = aot_autograd(
        fw_compiler=compilers.forward,
        bw_compiler=compilers.backward,
        inference_compiler=compilers.inference,
        decompositions=dict(decompositions),
        keep_inference_input_mutations=True,
        partition_fn=compilers.partition,
    )(entry.gm, example_inputs)
    return while_places_hold(compiled, entry.gm, example_inputs) if entry.depends_on_places else compiled


class _Compilers:
    """The functions that AOTAutograd calls."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def inference(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return self._compile(gm, Route.INFERENCE)

    def forward(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        # The backward graph must not reuse the memory of what was saved for it: it may run again (retain_graph=True).
        torch._guards.TracingContext.get().fw_metadata.bw_donated_idxs = []
        return self._compile(gm, Route.FORWARD)

    def backward(self, gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        self._entry.started = time.perf_counter()
        run = self._compile(gm, Route.BACKWARD)

        # AOTAutograd wraps what it gets here, and the wrapper copies attributes of Python functions only.
        def call(args: list[Any]) -> Any:
            return run(args)

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

    def _compile(self, gm: fx.GraphModule, route: Route) -> Callable[..., Any]:
        name = f"{self._entry.name}.{route.phase}" if route.training else self._entry.name
        inputs = named_inputs(gm) if route is Route.BACKWARD else self._entry.describe_inputs(gm)
        return compile_graph(Work(self._entry, gm, name, inputs, route))
