# SPDX-License-Identifier: Apache-2.0
"""A graph as a script of Python: a call of a builder for each operator, with the lines of the user's program and of the
FX graph that it came from. The script makes a ``GraphDef`` that equals the graph's.

Each statement is run when it is written, on a copy. What the copy's operator lacks is then said by further statements.
So anything can be written, also operators that no builder makes: those of other programs, and results of passes."""

from __future__ import annotations

import builtins
import itertools
import keyword
import math
import re
from collections.abc import Iterator
from typing import Any

from npugraph.ge import apis, attr, proto
from npugraph.ge.builders import custom_op
from npugraph.ge.const import from_bytes
from npugraph.ge.data_types import DataType
from npugraph.ge.dumps import source
from npugraph.ge.dumps.rebuild import merge, put, tensor_def
from npugraph.ge.dumps.text import on_one_line
from npugraph.ge.graph import GeGraph, Tensor
from npugraph.ge.normalise import add_names

_DESCRIPTORS = ("input_desc", "output_desc")
_HEADER = """\
from math import inf, nan

from npugraph.ge.const import from_bytes
from npugraph.ge.dumps.rebuild import merge, put, tensor_def
from npugraph.ge.normalise import add_names
from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.ge_graph import GeGraph
from torchair.ge import DataType, Tensor, attr, custom_op

"""


def dump(graph: GeGraph) -> str:
    writer = _Writer(graph.name)
    for op in graph.op:
        writer.add_origin(graph.origin_of(op.name))
        writer.add_op(op)
    for name in sorted(graph.attr):
        writer.run(f"put(graph.attr[{name!r}], {on_one_line(graph.attr[name])!r})")
    rest = proto.GraphDef()
    rest.CopyFrom(graph.proto)
    for field in ("name", "op", "attr"):
        rest.ClearField(field)
    if rest.ByteSize():
        writer.run(f"merge(graph.proto, {on_one_line(rest)!r})")
    body = "".join(f"    {line}\n" for line in writer.lines) or "    pass\n"
    return f"{_HEADER}graph = GeGraph(name={graph.name!r})\nwith graph.context():\n{body}"


class _Writer:
    def __init__(self, graph_name: str) -> None:
        self.lines: list[str] = []
        self._graph = GeGraph(name=graph_name)
        self._names: dict[str, Any] = {
            **{"ge": apis, "attr": attr, "graph": self._graph, "inf": math.inf, "nan": math.nan},
            **{"DataType": DataType, "GeGraph": GeGraph, "Tensor": Tensor, "custom_op": custom_op},
            **{"add_names": add_names, "from_bytes": from_bytes, "merge": merge, "put": put},
            "tensor_def": tensor_def,
        }
        self._results = source.Results()
        self._origin: tuple[str, ...] = ()

    def run(self, statement: str) -> None:
        with self._graph.context():
            exec(statement, self._names)
        self.lines.append(statement)

    def add_origin(self, origin: tuple[str, ...]) -> None:
        """Writes where the next operators came from, once for all that came from one FX node."""
        if origin and origin != self._origin:
            self.lines += [f"{'##' if line.startswith('FX Code:') else '#'} {_printable(line)}" for line in origin]
        self._origin = origin

    def add_op(self, op: Any) -> None:
        variable = self._free_variable(op.name)
        for call in source.calls(op, self._results):
            try:
                self.run(f"{variable} = {call}")
                break
            except (RuntimeError, AssertionError, TypeError):  # what the operator has is not what its builder takes
                continue
        else:
            self.run(f"{variable} = graph.op.add()")
        if "_input_name_key" in op.attr:
            self.run("add_names(graph.op[-1])")
        for statement in _corrections(self._graph.op[-1], op):
            self.run(statement)
        self._results.add(op, variable, self._names[variable])

    def _free_variable(self, name: str) -> str:
        base = re.sub(r"\W", "_", name, flags=re.ASCII)
        if not base.isidentifier() or keyword.iskeyword(base):
            base = f"op_{base}"
        variables = itertools.chain([base], (f"{base}_{number}" for number in itertools.count(1)))
        return next(v for v in variables if v not in self._names and not hasattr(builtins, v))


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() else " " for char in line)


def _corrections(made: Any, op: Any) -> Iterator[str]:
    """Statements that turn the operator that has just been made into ``op``."""
    if _same(_without_parts(made), _without_parts(op)) and all(
        len(getattr(made, field)) == len(getattr(op, field)) for field in _DESCRIPTORS
    ):
        for name in sorted({*made.attr, *op.attr}):
            if name not in op.attr:
                yield f"del graph.op[-1].attr[{name!r}]"
            elif name not in made.attr or not _same(made.attr[name], op.attr[name]):
                yield f"put(graph.op[-1].attr[{name!r}], {on_one_line(op.attr[name])!r})"
        for field in _DESCRIPTORS:
            for index, (ours, theirs) in enumerate(zip(getattr(made, field), getattr(op, field), strict=True)):
                if not _same(ours, theirs):
                    yield f"put(graph.op[-1].{field}[{index}], {on_one_line(theirs)!r})"
    else:
        yield f"put(graph.op[-1], {on_one_line(op)!r})"


def _without_parts(op: Any) -> Any:
    rest = proto.OpDef()
    rest.CopyFrom(op)
    for field in ("attr", *_DESCRIPTORS):
        rest.ClearField(field)
    return rest


def _same(a: Any, b: Any) -> bool:
    """Whether two messages have the same bytes: a NaN is the same as itself."""
    return a.SerializeToString(deterministic=True) == b.SerializeToString(deterministic=True)
