# SPDX-License-Identifier: Apache-2.0
"""The steps on FX graphs that all targets have in common."""

from __future__ import annotations

from npugraph.driver.entry import Route, Work
from npugraph.driver.refusals import warn_of_keys
from npugraph.fx import result_places
from npugraph.fx.passes.pipeline import run_passes
from npugraph.fx.streams.scope_keys import settle_keys
from npugraph.fx.streams.sections import mark_sections
from npugraph.options import CompilerConfig


def give_places(work: Work) -> None:
    facts = result_places.description()
    if facts is not None and work.route in (Route.INFERENCE, Route.FORWARD):
        result_places.give_places(work.gm.graph, facts)


def mark_streams_and_scopes(work: Work) -> None:
    """Marks the sections of the graph. A backward graph runs on one stream, because the program says nothing about its
    order."""
    work.strands = None if work.route is Route.BACKWARD else mark_sections(work.gm)


def run_fx_passes(work: Work) -> None:
    work.notes = run_passes(work.gm, work.config, work.observer)
    if work.route is Route.FORWARD:  # it was cut out of a joint graph
        joint = work.entry.joint_notes
        work.notes.stages = joint.stages | work.notes.stages
        work.notes.replacements[:0] = joint.replacements


def settle_scope_keys(work: Work) -> None:
    warn_of_keys(settle_keys(work.gm))


def dumps_original(config: CompilerConfig) -> bool:
    """Whether to run the graph as it is before the passes, with dumps of its tensors."""
    return config.dump_tensor_data.value and config.data_dump_stage.value == "original"


def add_dumps_after_passes(work: Work) -> None:
    if work.config.dump_tensor_data.value and not work.config.super_kernel_optimize.value:
        add_dumps(work)


def add_dumps(work: Work) -> None:
    from npugraph.fx.passes import tensor_dumps  # defines operators that few processes need

    tensor_dumps.add_dumps(work.gm, work.config.data_dump_dir.value)
