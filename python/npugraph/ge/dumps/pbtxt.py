# SPDX-License-Identifier: Apache-2.0
"""A graph as the text of a ``GraphDef`` of TensorFlow, which viewers of graphs read. Each operator is a ``node`` with
its ``name``, ``op`` and ``input`` (``^name`` for an order without data); its attributes and descriptors (``[i]name``,
``[o]name``) are texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf import text_encoding

from npugraph.ge.dumps.text import on_one_line
from npugraph.ge.graph import GeGraph
from npugraph.ge.normalise import is_control

_MOST_BYTES = 256  # of a constant that is shown; a viewer has no use for weights


def dump(graph: GeGraph) -> str:
    return "".join(f"{line}\n" for op in graph.op for line in _node(op))


def _node(op: Any) -> Iterator[str]:
    yield "node {"
    yield f"  name: {_quoted(op.name)}"
    yield f"  op: {_quoted(op.type)}"
    inputs = [f"^{name.removesuffix(':-1')}" if is_control(name) else name for name in op.input if name]
    # TensorFlow has them in the other order.
    for name in sorted(inputs, key=lambda name: name.startswith("^")):
        yield f"  input: {_quoted(name)}"
    for key, value in _attributes(op):
        yield f"  attr {{ key: {_quoted(key)} value {{ s: {_quoted(value)} }} }}"
    yield "}"


def _attributes(op: Any) -> Iterator[tuple[str, str]]:
    for name in sorted(op.attr):
        yield name, _text(op.attr[name])
    for side, descs in (("i", op.input_desc), ("o", op.output_desc)):
        for desc in descs:
            yield f"[{side}]{desc.name}", on_one_line(desc)


def _text(attribute: Any) -> str:
    kind = attribute.WhichOneof("value")
    if kind == "s":
        return attribute.s.decode(errors="replace")
    if kind == "t" and len(attribute.t.data) > _MOST_BYTES:
        return f"{on_one_line(attribute.t.desc)} data: {len(attribute.t.data)} bytes"
    if kind in ("i", "f", "b", "dt"):
        return str(getattr(attribute, kind))
    return on_one_line(attribute)


def _quoted(text: str) -> str:
    return f'"{text_encoding.CEscape(text.encode(), as_utf8=False)}"'
