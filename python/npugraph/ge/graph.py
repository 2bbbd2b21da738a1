# SPDX-License-Identifier: Apache-2.0
"""A graph of GE: one ``ModelDef`` with one ``GraphDef``, and the executor that runs it."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from npugraph.ge import proto
from npugraph.ge.executor import TorchNpuGraph
from npugraph.ge.normalise import normalise
from npugraph.ge.tensor import Tensor, is_control

_contexts = threading.local()


def current_graph() -> GeGraph:
    """The graph to which builders of this thread add operators. Raises ``RuntimeError`` if there is none."""
    graphs = getattr(_contexts, "graphs", None)
    if not graphs:
        raise RuntimeError(
            "there is no graph to add an operator to: call its builder in a converter or within `with graph.context():`"
        )
    return graphs[-1]


class GeGraph:
    """A new graph, or that of a ``ModelDef``, which the graph then owns, or of its bytes. ``name`` renames it. Not for
    several threads at once."""

    def __init__(
        self,
        model_def: Any = None,
        serialized_model_def: bytes | None = None,
        name: str | None = None,
    ) -> None:
        if model_def is not None and serialized_model_def is not None:
            raise AssertionError("Unsupported init method: both model_def and serialized_model_def are specified.")
        if serialized_model_def is not None:
            model_def = _parsed(serialized_model_def)
        elif model_def is not None and not isinstance(model_def, proto.ModelDef):
            raise RuntimeError(
                f"model_def is a ModelDef of torchair, got {type(model_def)}; give the bytes of another one as "
                "serialized_model_def"
            )
        self.model = _new_model() if model_def is None else model_def
        if len(self.model.graph) != 1:
            raise RuntimeError(f"a GeGraph is made of a ModelDef with one graph, got {len(self.model.graph)}")
        self.proto = self.model.graph[0]
        if name is not None:
            self.proto.name = name
        self._names = {op.name for op in self.proto.op}
        self._next_numbers: dict[str, int] = {}  # by type of operator
        self._origins: dict[str, tuple[str, ...]] = {}  # by name of operator
        self._origin: tuple[str, ...] = ()
        self._executor: TorchNpuGraph | None = None

    @property
    def name(self) -> str:
        return self.proto.name

    @property
    def op(self) -> Any:
        """Its operators, in order."""
        return self.proto.op

    @property
    def attr(self) -> Any:
        """Attributes of the graph, ``AttrDef`` by name."""
        return self.proto.attr

    def SerializeToString(self) -> bytes:
        """The bytes of its ``ModelDef``. Equal graphs have equal bytes."""
        return self.model.SerializeToString(deterministic=True)

    def __enter__(self) -> GeGraph:
        """Makes this the graph to which builders of this thread add operators, until the block ends."""
        if not hasattr(_contexts, "graphs"):
            _contexts.graphs = []
        _contexts.graphs.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _contexts.graphs.pop()

    def context(self) -> contextlib.AbstractContextManager[GeGraph]:
        """The same as the graph itself: ``with graph.context():``."""
        return self

    @contextlib.contextmanager
    def fx_node(self, code: str, stack: Sequence[str] = ()) -> Iterator[None]:
        """Says for operators that are added meanwhile which FX node they come from: its code, and the lines of its
        place in the user's program, as ``File "model.py", line 3, in forward``."""
        before, self._origin = self._origin, (*stack, f"FX Code: {code}")
        try:
            yield
        finally:
            self._origin = before

    def origin_of(self, op_name: str) -> tuple[str, ...]:
        """What ``fx_node`` said of the operator: lines, the last one the code. Empty if it said nothing."""
        return self._origins.get(op_name, ())

    def add_op(self, op_type: str, node_name: str | None = None) -> Any:
        """Adds an ``OpDef`` without inputs and outputs. Without ``node_name`` it is named after its type: Add, Add_1,
        ... Raises ``AssertionError`` for a name that is empty, taken or has a slash."""
        name = self._free_name(op_type) if node_name is None else self.checked_name(op_type, node_name)
        self._names.add(name)
        if self._origin:
            self._origins[name] = self._origin
        return self.proto.op.add(name=name, type=op_type)

    def checked_name(self, op_type: str, node_name: str) -> str:
        """``node_name``, if an operator can be added under that name; else raises ``AssertionError``."""
        if not isinstance(node_name, str) or node_name == "" or "/" in node_name:
            raise AssertionError(
                f"the name of an operator is a str that is not empty and has no '/', got {node_name!r} for {op_type}"
            )
        if node_name in self._names:
            raise AssertionError(
                f"names of operators are unique in a graph, and {node_name!r}, given for {op_type}, is taken in "
                f"{self.name!r}"
            )
        return node_name

    def has(self, op_name: str) -> bool:
        return op_name in self._names

    def _free_name(self, op_type: str) -> str:
        for number in itertools.count(self._next_numbers.get(op_type, 0)):
            self._next_numbers[op_type] = number + 1
            name = f"{op_type}_{number}" if number else op_type
            if name not in self._names:
                break
        return name

    @property
    def executor(self) -> TorchNpuGraph:
        """What loads, compiles and runs the graph, made when it is first asked for."""
        if self._executor is None:
            self._executor = TorchNpuGraph(self.name)
        return self._executor

    def load(self, options: Mapping[str, str] | None = None) -> None:
        """Gives the graph to its executor, with the options of this graph. Later changes of the graph do not count."""
        normalise(self.proto)
        self.executor.load(self, options)

    def set_hint_shape(self, inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]] = ()) -> None:
        self.executor.set_hint_shape(inputs, outputs)

    def compile(self) -> None:
        self.executor.compile()

    def auto_tune(self, example_inputs: Sequence[Any] = (), stream: Any = None) -> None:
        self.executor.auto_tune(example_inputs, stream)

    def summary(self) -> dict[str, int]:
        return self.executor.summary()

    def run(self, inputs: Sequence[Any], assigned_outputs: Sequence[Any] = (), stream: Any = None) -> list[Any]:
        return self.executor.run(inputs, assigned_outputs, stream)


def add_control(op: Any, producers: Iterable[Any]) -> None:
    """Lets ``op`` run after ``producers``, each a ``Tensor`` or an ``OpDef``. Control inputs are before data inputs."""
    for name in [control_name(op.type, producer) for producer in producers]:
        controls = [given for given in op.input if is_control(given)]
        if name not in controls:
            op.input.insert(len(controls), name)


def control_name(op_type: str, producer: Any) -> str:
    """The control input by which an operator of type ``op_type`` runs after ``producer``."""
    if isinstance(producer, (Tensor, proto.OpDef)):
        return producer.controller if isinstance(producer, Tensor) else f"{producer.name}:-1"
    raise RuntimeError(
        f"a dependency of {op_type} is a torchair.ge.Tensor or an OpDef, got {producer!r} ({type(producer).__name__})"
    )


def _new_model() -> Any:
    model = proto.ModelDef()
    model.graph.add()
    return model


def _parsed(data: bytes) -> Any:
    try:
        return proto.ModelDef.FromString(data)
    except DecodeError as error:
        raise RuntimeError(
            f"serialized_model_def is not the bytes of a ModelDef ({len(data)} bytes): {error}"
        ) from None
