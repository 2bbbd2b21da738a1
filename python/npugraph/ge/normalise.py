# SPDX-License-Identifier: Apache-2.0
"""The last step on a ``GraphDef`` before an engine gets it, and what a ``GraphDef`` says of inputs. Doing it twice
changes nothing."""

from __future__ import annotations

from typing import Any

from npugraph.ge import attr, data_types, proto

INPUTS_OF_GRAPH = ("Data", "RefData")
# The attribute of a graph with the device of npu that it is for, as npu:1. A graph without it goes by its inputs.
DEVICE = "_npugraph_device"
UNFED = "_is_unfed_optional"  # the attribute of a descriptor of an absent input


def normalise(graph: Any) -> None:
    """Completes what the engine expects and builders leave open:

    - ``_input_name_key`` and ``_input_name_value`` of each operator map names of its inputs to their numbers;
      ``_output_name_key`` and ``_output_name_value`` do so for outputs.
    - Descriptors have a layout: ``ND``, or what the attributes ``input_layout_info`` and ``output_layout_info`` of
      their operator say (``list.i`` numbers of descriptors, ``list.s`` layouts).
    - Descriptors have an element type: an input that of its producer, and ``DT_FLOAT`` if nobody has said it, because
      the engine finds types itself. Descriptors of inputs of the graph and of absent inputs stay as they are.
    - ``_input_placements`` (0: host, 1: device) and ``_output_dtypes`` (``DataType``) of the graph list its inputs, in
      the order of their indices, and its outputs; ``_executor_type`` is 1 if an input is on the device."""
    producers = {op.name: op for op in graph.op}
    for op in graph.op:
        if op.type not in INPUTS_OF_GRAPH:
            _set_layouts(op)
            _set_types(op, producers)
    _set_graph_attributes(graph)
    for op in graph.op:
        add_names(op)


def inputs_of(graph: Any) -> list[Any]:
    """The inputs of a graph, ``OpDef`` in the order of their indices."""
    return sorted((op for op in graph.op if op.type in INPUTS_OF_GRAPH), key=_index)


def add_names(op: Any) -> None:
    """Adds the attributes of an ``OpDef`` that number the names of its inputs and outputs."""
    for side, descs in _sides(op):
        attr.ListStr([desc.name for desc in descs]).write(op.attr[f"_{side}_name_key"])
        attr.ListInt(list(range(len(descs)))).write(op.attr[f"_{side}_name_value"])


def _sides(op: Any) -> tuple[tuple[str, Any], tuple[str, Any]]:
    return ("input", op.input_desc), ("output", op.output_desc)


def _set_layouts(op: Any) -> None:
    for side, descs in _sides(op):
        layouts: dict[int, str] = {}
        if f"{side}_layout_info" in op.attr:
            info = op.attr[f"{side}_layout_info"].list
            if len(info.i) != len(info.s):
                raise RuntimeError(
                    f"{side}_layout_info of {op.name!r} has a layout for each number of an {side}, got {len(info.s)} "
                    f"layouts for {len(info.i)} numbers"
                )
            layouts = {index: layout.decode(errors="replace") for index, layout in zip(info.i, info.s, strict=True)}
        for index, desc in enumerate(descs):
            if UNFED not in desc.attr:
                desc.layout = layouts.get(index, "ND")


def _set_types(op: Any, producers: dict[str, Any]) -> None:
    for desc, source in zip(op.input_desc, data_inputs(op), strict=False):
        name, _, index = source.rpartition(":")
        results = producers[name].output_desc if name in producers else ()
        if desc.dtype == proto.DT_UNDEFINED and index.isdecimal() and int(index) < len(results):
            desc.dtype = results[int(index)].dtype
    for desc in (*op.input_desc, *op.output_desc):
        if desc.dtype == proto.DT_UNDEFINED and UNFED not in desc.attr:
            desc.dtype = proto.DT_FLOAT


def _set_graph_attributes(graph: Any) -> None:
    placements = [int(any(desc.device_type == "NPU" for desc in op.output_desc)) for op in inputs_of(graph)]
    outputs = [desc for op in graph.op if op.type == "NetOutput" for desc in op.input_desc]
    attr.ListInt(placements).write(graph.attr["_input_placements"])
    attr.ListInt([data_types.of_proto(desc.dtype) for desc in outputs]).write(graph.attr["_output_dtypes"])
    is_on_npu = any(placements) or DEVICE in graph.attr  # a graph without inputs names its device
    attr.Int(int(is_on_npu)).write(graph.attr["_executor_type"])


def _index(op: Any) -> int:
    return op.attr["index"].i if "index" in op.attr else 0  # reading an attribute adds it


def is_control(input_name: str) -> bool:
    """Whether an input of an ``OpDef`` is an order without data."""
    return input_name.endswith(":-1")


def data_inputs(op: Any) -> list[str]:
    """Inputs of an ``OpDef`` that are data, one for each ``input_desc`` that has any; empty text for an absent one."""
    return [name for name in op.input if not is_control(name)]
