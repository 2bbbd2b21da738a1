# SPDX-License-Identifier: Apache-2.0
"""A graph of GE: one ``ModelDef`` with one ``GraphDef``, and the executor that runs it. Its parts: inputs, results of
operators, and its end."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from npugraph.ge import data_types, proto
from npugraph.ge.data_types import TensorSpec
from npugraph.ge.executor import TorchNpuGraph
from npugraph.ge.normalise import is_control, normalise
from npugraph.ge.tuning import Product

UNKNOWN_SIZE = -1
UNKNOWN_RANK = (-2,)  # the dims of a tensor of which not even the rank is known

_contexts = threading.local()


class Tensor:
    """Result ``index`` of the operator ``node`` (an ``OpDef``), which outlives it."""

    def __init__(self, node: Any, index: int = 0, size: Sequence[Any] | None = None) -> None:
        self.node = node
        self.index = index
        self.symsize = None if size is None else list(size)  # sizes as FX knows them; None if nobody has said them
        self.order: tuple[int, ...] | None = ()  # see TensorSpec

    @property
    def desc(self) -> Any:
        """Its ``TensorDescriptor``, which the graph holds."""
        return self.node.output_desc[self.index]

    @property
    def dtype(self) -> Any:
        """Its ``DataType``; ``DT_UNDEFINED`` if the engine alone can tell it."""
        return data_types.of_proto(self.desc.dtype)

    @property
    def rank(self) -> int:
        """Its number of dimensions; -1 if it is not known."""
        return -1 if self.symsize is None else len(self.symsize)

    @property
    def tensor(self) -> str:
        """How an operator that reads it names it."""
        return f"{self.node.name}:{self.index}"

    @property
    def controller(self) -> str:
        """How an operator that only runs after it names it."""
        return f"{self.node.name}:-1"

    def set_meta(self, spec: TensorSpec) -> None:
        """Says what FX knows of it. Readers of before keep their descriptors."""
        self.symsize = list(spec.size)
        self.order = spec.order
        self.desc.dtype = data_types.to_proto(spec.dtype)
        self.desc.attr["_meta"].s = str(spec).encode()

    def __repr__(self) -> str:
        size = "unknown" if self.symsize is None else self.symsize
        return f"Tensor({self.tensor!r}, dtype={self.dtype.name}, size={size})"


def dims_of(size: Sequence[Any]) -> list[int]:
    """Sizes as messages have them: -1 for one that is not an int."""
    return [dim if isinstance(dim, int) else UNKNOWN_SIZE for dim in size]


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
        # The next numbers of names, by type of operator.
        self._next: dict[str, Iterator[int]] = collections.defaultdict(itertools.count)
        self._origins: dict[str, tuple[str, ...]] = {}  # by name of operator
        self._origin: tuple[str, ...] = ()
        # What computes operators without a rule (``converters.computations``), and the numbers of lists of sizes, by
        # tensor.
        self.computations: list[Any] = []
        self.size_lists: dict[str, list[Any]] = {}

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
        return next(
            name for n in self._next[op_type] if (name := f"{op_type}_{n}" if n else op_type) not in self._names
        )

    @functools.cached_property
    def executor(self) -> TorchNpuGraph:
        """What loads, compiles and runs the graph, made when it is first asked for."""
        return TorchNpuGraph(self.name)

    def load(self, options: Mapping[str, str] | None = None) -> None:
        """Gives the graph to its executor, with the options of this graph. Later changes of the graph do not count."""
        normalise(self.proto)
        self.executor.load(self, options)

    def set_hint_shape(self, inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]] = ()) -> None:
        self.executor.set_hint_shape(inputs, outputs)

    def compile(self) -> None:
        self.executor.compile()

    def auto_tune(self, example_inputs: Sequence[Any] = (), stream: Any = None) -> list[Product]:
        return self.executor.auto_tune(example_inputs, stream)

    def summary(self) -> dict[str, int]:
        return self.executor.summary()

    def run(self, inputs: Sequence[Any], assigned_outputs: Sequence[Any] = (), stream: Any = None) -> list[Any]:
        return self.executor.run(inputs, assigned_outputs, stream)


_PLACEMENTS = ("NPU", "CPU")


def Data(
    *, index: int, dtype: Any, shape: Sequence[Any], placement: str = "NPU", node_name: str | None = None
) -> Tensor:
    """Adds input ``index`` of the current graph. ``dtype`` is a ``DataType``. A size that is no int is unknown, as -1
    is; [-2] is an unknown rank. ``placement`` is where the engine finds the tensor: NPU, or CPU for the host."""
    return _input("Data", index, dtype, shape, placement, node_name)


def RefData(
    *, index: int, dtype: Any, shape: Sequence[Any], placement: str = "NPU", node_name: str | None = None
) -> Tensor:
    """Adds input ``index`` of the current graph, which the graph may write."""
    return _input("RefData", index, dtype, shape, placement, node_name)


def NetOutput(
    outputs: Sequence[Tensor], specs: Sequence[TensorSpec] | None = None, *, dependencies: Sequence[Any] = ()
) -> Any:
    """Adds the end of the current graph, with its outputs in order, and returns the ``OpDef``. ``specs`` say what FX
    knows of each output. ``dependencies`` run although no output needs them."""
    if specs is not None and len(specs) != len(outputs):
        raise RuntimeError(f"a graph has one spec for each of its {len(outputs)} outputs, got {len(specs)}")
    for number, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            raise RuntimeError(
                f"output {number} of a graph is a torchair.ge.Tensor, got {output!r} ({type(output).__name__})"
            )
    controls = [control_name("NetOutput", producer) for producer in dependencies]
    node = current_graph().add_op("NetOutput", "NetOutput")
    node.input.extend(dict.fromkeys(controls))
    for number, output in enumerate(outputs):
        node.input.append(output.tensor)
        desc = node.input_desc.add()
        desc.CopyFrom(output.desc)
        desc.name = f"input{number}"
        if specs is not None:
            desc.dtype = data_types.to_proto(specs[number].dtype)
            desc.shape.dim[:] = dims_of(specs[number].size)
    return node


def _input(op_type: str, index: int, dtype: Any, shape: Sequence[Any], placement: str, node_name: str | None) -> Tensor:
    if placement not in _PLACEMENTS:
        raise RuntimeError(f"the placement of an input of a graph is {' or '.join(_PLACEMENTS)}, got {placement!r}")
    wire = data_types.to_proto(dtype)
    dims = dims_of(shape)
    node = current_graph().add_op(op_type, node_name)
    node.attr["index"].i = index
    for name, descs in (("x", node.input_desc), ("y", node.output_desc)):
        desc = descs.add(name=name, dtype=wire, layout="ND", device_type=placement)
        desc.shape.SetInParent()
        desc.shape.dim.extend(dims)
    return Tensor(node, 0, None if dims == [-2] else shape)


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
