# SPDX-License-Identifier: Apache-2.0
"""Builders of the inputs and outputs of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npugraph.ge import data_types
from npugraph.ge.graph import control_name, current_graph
from npugraph.ge.tensor import Tensor, TensorSpec, dims_of

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
