# SPDX-License-Identifier: Apache-2.0
"""The words of the compile driver: a call of the backend, the graphs of operators that are made of its graph, and the
targets for which these are compiled."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

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
from npugraph.fx.translate.importer import InputInfo
from npugraph.options import CompilerConfig, backend_of
from npugraph.stored.graphs import Parts


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
    """One call of the backend. ``kind`` is "model" for a graph of Dynamo, "compile" for a graph of operators."""

    def __init__(
        self,
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        config: CompilerConfig,
        target: Target[Any],
        kind: str = "model",
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
        self.noted = target.note_inputs(example_inputs)
        self.weights = _weights_by_position(example_inputs) if config.release_original_weights.value else {}

    def describe_inputs(self, gm: fx.GraphModule) -> list[InputInfo]:
        """Returns kinds and sources of the placeholders of a forward graph. AOTAutograd may put effect tokens in front
        of them and may replace aliased inputs by their base. In these cases the sources are the placeholders' names."""
        if len(gm.graph.find_nodes(op="placeholder")) != len(self.placeholders):
            return named_inputs(gm)
        return [describe_input(node) for node in self.placeholders]


def named_inputs(gm: fx.GraphModule) -> list[InputInfo]:
    """Describes the placeholders of a graph of which only their names are known."""
    return [InputInfo("user", node.name) for node in gm.graph.find_nodes(op="placeholder")]


@dataclasses.dataclass
class OperatorGraph:
    """A graph of ATen operators, as a front end made it. Steps change ``gm`` and set the fields that have defaults."""

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
    phases: dict[str, float] = dataclasses.field(default_factory=dict)  # of the front end, in milliseconds

    @property
    def config(self) -> CompilerConfig:
        return self.entry.config

    @contextlib.contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Adds the time of its block to a phase."""
        begun = time.perf_counter()
        yield
        self.phases[phase] = self.phases.get(phase, 0.0) + (time.perf_counter() - begun) * 1e3


class CompiledGraph(NamedTuple):
    """A function. ``parts`` is what it consists of, if calls do nothing but run Programs."""

    run: Callable[..., Any]
    parts: Parts | None = None


class Step(NamedTuple):
    """One step on graphs of operators. ``why_here`` gives the reason for its place in the order."""

    name: str
    run: Callable[[OperatorGraph], None]
    why_here: str


Built = TypeVar("Built")


@dataclasses.dataclass(frozen=True)
class Target(Generic[Built]):
    """A form that graphs are compiled to. ``build`` makes it of a graph that has gone through ``steps`` and does not
    change any more, and ``function`` makes the compiled function. Graphs that control flow of the graph runs go through
    ``nested_steps`` before they are built with it. ``computes`` says whether the target computes an operator of the
    user without a kernel of it. ``note_inputs`` makes what the target needs to know of the inputs of Dynamo's graph,
    which become ``Entry.noted``. ``kept`` are functions that are called while torch traces a graph, in the place of
    operators that torch would take apart."""

    name: str
    steps: tuple[Step, ...]
    nested_steps: tuple[Step, ...]
    build: Callable[[OperatorGraph], Built]
    function: Callable[[OperatorGraph, Built], CompiledGraph]
    computes: Callable[[Any], bool] = lambda operator: False
    note_inputs: Callable[[Sequence[Any]], Any] = lambda inputs: None
    kept: Callable[[], Mapping[Any, Callable[..., Any]]] = dict


def describe_input(node: fx.Node) -> InputInfo:
    """Returns kind and source of a placeholder of Dynamo's graph."""
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
