# SPDX-License-Identifier: Apache-2.0
"""The steps on FX graphs that all targets have in common."""

from __future__ import annotations

from npugraph.driver.entry import OperatorGraph, Route
from npugraph.driver.refusals import warn_of_keys
from npugraph.fx import result_places
from npugraph.fx.passes.pipeline import run_passes
from npugraph.fx.streams.scope_keys import settle_keys
from npugraph.fx.streams.sections import mark_sections
from npugraph.options import CompilerConfig


def give_places(graph: OperatorGraph) -> None:
    facts = result_places.description()
    if facts is not None and graph.route in (Route.INFERENCE, Route.FORWARD):
        result_places.give_places(graph.gm.graph, facts)


def mark_streams_and_scopes(graph: OperatorGraph) -> None:
    """Marks the sections of the graph. A backward graph runs on one stream, because the program says nothing about its
    order."""
    graph.strands = None if graph.route is Route.BACKWARD else mark_sections(graph.gm)


def run_fx_passes(graph: OperatorGraph) -> None:
    graph.notes = run_passes(graph.gm, graph.config, graph.observer)
    if graph.route is Route.FORWARD:  # it was cut out of a joint graph
        joint = graph.entry.joint_notes
        graph.notes.stages = joint.stages | graph.notes.stages
        graph.notes.replacements[:0] = joint.replacements


def settle_scope_keys(graph: OperatorGraph) -> None:
    warn_of_keys(settle_keys(graph.gm))


def dumps_original(config: CompilerConfig) -> bool:
    """Whether to run the graph as it is before the passes, with dumps of its tensors."""
    return config.dump_tensor_data.value and config.data_dump_stage.value == "original"


def add_dumps_after_passes(graph: OperatorGraph) -> None:
    if graph.config.dump_tensor_data.value and not graph.config.super_kernel_optimize.value:
        add_dumps(graph)


def add_dumps(graph: OperatorGraph) -> None:
    from npugraph.fx.passes import tensor_dumps  # defines operators that few processes need

    tensor_dumps.add_dumps(graph.gm, graph.config.data_dump_dir.value)
