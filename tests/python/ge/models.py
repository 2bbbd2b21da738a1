# SPDX-License-Identifier: Apache-2.0
"""Models of GE that tests write with google.protobuf, from the numbers of the wire format alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npugraph.ge import proto

FLOAT, INT64 = 1, 8  # ge.proto.DataType: DT_FLOAT and DT_INT64
_WIRE_TYPES = {np.dtype("float32"): FLOAT, np.dtype("int64"): INT64}


class Model:
    """A ``ModelDef`` with one graph, to which operators are added."""

    def __init__(self, name: str = "model") -> None:
        self.definition = proto.ModelDef()
        self.graph = self.definition.graph.add(name=name)

    def data(self, name: str, index: int, dims: Sequence[int], dtype: int = FLOAT) -> str:
        op = self.graph.op.add(name=name, type="Data")
        op.attr["index"].i = index
        _describe(op.output_desc.add(), dtype, dims)
        return f"{name}:0"

    def const(self, name: str, values: np.ndarray[Any, Any]) -> str:
        op = self.graph.op.add(name=name, type="Const")
        tensor = op.attr["value"].t
        _describe(tensor.desc, _WIRE_TYPES[values.dtype], values.shape)
        tensor.data = values.tobytes()
        op.output_desc.add().CopyFrom(tensor.desc)
        return f"{name}:0"

    def op(self, op_type: str, name: str, inputs: Sequence[str], **attrs: Any) -> str:
        """An operator with one result. Attributes are bools, ints, floats, texts or lists of ints."""
        op = self.graph.op.add(name=name, type=op_type)
        op.input.extend(inputs)
        op.output_desc.add(name="y", dtype=FLOAT)
        for key, value in attrs.items():
            _set(op.attr[key], value)
        return f"{name}:0"

    def output(self, *results: str) -> Model:
        self.graph.op.add(name="output", type="NetOutput").input.extend(results)
        return self

    def serialised(self) -> bytes:
        return self.definition.SerializeToString()


def _describe(desc: Any, dtype: int, dims: Sequence[int]) -> None:
    desc.name, desc.dtype, desc.layout = "y", dtype, "ND"
    desc.shape.SetInParent()
    desc.shape.dim.extend(dims)


def _set(attr: Any, value: Any) -> None:
    if isinstance(value, list):
        attr.list.i.extend(value)
        attr.list.val_type = 2
    else:
        field = {bool: "b", int: "i", float: "f", str: "s"}[type(value)]
        setattr(attr, field, value.encode() if field == "s" else value)


def mlp(rng: np.random.Generator) -> tuple[Model, Any]:
    """relu(x w1^T + b1) w2^T + r, with unknown numbers of rows in x and in r, and the same with numpy."""
    w1, b1, w2 = (rng.standard_normal(size, dtype=np.float32) for size in ((16, 8), 16, (4, 16)))
    model = Model("mlp")
    x, r = model.data("x", 0, [-1, 8]), model.data("r", 1, [-1, 4])
    hidden = model.op("MatMulV2", "hidden", [x, model.const("w1", w1), model.const("b1", b1)], transpose_x2=True)
    active = model.op("Relu", "active", [hidden])
    product = model.op("MatMulV2", "product", [active, model.const("w2", w2)], transpose_x2=True)
    model.output(model.op("Add", "sum", [product, r]))
    return model, lambda x, r: np.maximum(x @ w1.T + b1, 0) @ w2.T + r
