# SPDX-License-Identifier: Apache-2.0
"""One call of the backend, and the graphs of operators that are made from its graph."""

from __future__ import annotations

import dataclasses
import enum
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from npugraph.artifact import Owners, registry
from npugraph.debug.compiles import Compiles
from npugraph.driver.shared_storages import shared_storages
from npugraph.fx.compile_observer import NO_OBSERVER, CompileObserver
from npugraph.fx.decompose.release_weights import Release
from npugraph.fx.dynamo.graph_names import class_of_traced_module, name_of
from npugraph.fx.passes.pipeline import Notes
from npugraph.fx.streams.sections import Strands
from npugraph.fx.translate.importer import Imported, InputInfo
from npugraph.options import CompilerConfig, backend_of


class Route(enum.Enum):
    """The front end that made a graph of operators. It determines what the compiled function takes."""

    RECORDED = enum.auto()  # npugraph's recorder, for inference: the function takes the inputs one by one
    INFERENCE = enum.auto()  # AOTAutograd, also for the next two: it takes one list, which the call empties
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


class Entry:
    """One call of the backend. ``kind`` is "model" for a graph of Dynamo, "compile" for a graph of operators.
    ``target`` is a ``steps.Target``; None stands for the target "Graph"."""

    def __init__(
        self,
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        config: CompilerConfig,
        kind: str = "model",
        target: Any = None,
    ) -> None:
        self.config = config
        self.target = target
        self.compiles = Compiles(backend_of(config), kind, gm)
        self.started = time.perf_counter()
        self.gm = gm
        self.placeholders = gm.graph.find_nodes(op="placeholder")
        self.name = config.name.value or registry.unique_name(name_of(gm))
        self.traced_module = class_of_traced_module()
        self.depends_on_places = False  # on where inputs lie in memory, relative to each other or in their storages
        self.owners = Owners()
        self.joint_notes = Notes()
        self.parts: Any = None  # stored.Parts of its function, if a Program is all that runs in a call
        self.nested_steps: list[Callable[[Work], None]] = []  # the target's steps for graphs that control flow runs
        self.weights = _weights_by_position(example_inputs) if config.release_original_weights.value else {}

    def describe_inputs(self, gm: fx.GraphModule) -> list[InputInfo]:
        """Returns kinds and sources of the placeholders of a forward graph. AOTAutograd may put effect tokens in front
        of them and may replace aliased inputs by their base. In these cases the sources are the placeholders' names."""
        if len(gm.graph.find_nodes(op="placeholder")) != len(self.placeholders):
            return named_inputs(gm)
        return [_describe(node) for node in self.placeholders]


def named_inputs(gm: fx.GraphModule) -> list[InputInfo]:
    """Describes the placeholders of a graph of which only their names are known."""
    return [InputInfo("user", node.name) for node in gm.graph.find_nodes(op="placeholder")]


@dataclasses.dataclass
class Work:
    """A graph of operators on its way to a compiled function. The steps of ``pipeline`` change ``gm`` and set the
    fields that have no value yet."""

    entry: Entry
    gm: fx.GraphModule
    name: str
    inputs: list[InputInfo]
    route: Route
    observer: CompileObserver = NO_OBSERVER
    notes: Notes = dataclasses.field(default_factory=Notes)
    new_storages: tuple[int, ...] = ()  # places of inputs that get other memory, see new_storages.py
    strands: Strands | None = None
    released: Release = dataclasses.field(default_factory=Release)
    imported: Imported | None = None
    core: Any = None  # the C++ artifact
    phases: list[tuple[str, float]] = dataclasses.field(default_factory=list)  # of the front end, in milliseconds
    pieces: Any = None  # pieces.Pieces, if it runs in pieces where graphs of npu are captured
    parts: Any = None  # stored.Parts of the compiled function

    @property
    def config(self) -> CompilerConfig:
        return self.entry.config


def _describe(node: fx.Node) -> InputInfo:
    source = getattr(node, "_dynamo_source", None)
    name = getattr(source, "name", None)
    text = name() if callable(name) else (name or node.name)
    if isinstance(node.meta.get("example_value"), torch.nn.Parameter):
        return InputInfo("parameter", text)
    # Dynamo marks tensors whose addresses it assumes to be fixed: tensors of modules, and caches with static addresses.
    is_static = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
    return InputInfo("static" if is_static else "user", text)


def _weights_by_position(inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
    """Returns the parameters that share their memory with no other input, by position."""
    shared = {place.index for place in shared_storages(inputs)}
    return {i: t for i, t in enumerate(inputs) if isinstance(t, torch.nn.Parameter) and i not in shared}
