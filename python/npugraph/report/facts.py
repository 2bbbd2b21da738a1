# SPDX-License-Identifier: Apache-2.0
"""The facts about an artifact that a page shows, as plain values for JSON."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import fx

from npugraph import _C
from npugraph.fx.source_lines import source_line
from npugraph.python_operators import runs_python
from npugraph.report.machine import limits
from npugraph.report.verdict import KINDS, Verdict, at_least, outside, used, verdict


def facts(artifact: Any, machine: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Collects the facts. ``machine`` has the limits that tasks are compared with, by default those of this machine
    (``machine.limits``)."""
    before, after = _before(artifact), _graph(artifact, _last_stage(artifact))
    sources = {node["name"]: node["source"] for node in [*after["nodes"], *before["nodes"]]}
    tasks = _tasks(artifact, after)
    machine = at_least(machine or limits(), tasks)
    memory = artifact.memory
    working_set = _working_set(memory)
    for task in tasks:
        task["used"] = used(task, machine, working_set)
    runs = [dataclasses.asdict(run) for run in artifact.runs]
    return {
        "name": artifact.name,
        "options": _given_options(artifact),
        "counters": artifact.counters,
        "memory": memory,
        "phases": artifact.phases,
        "instances": [dataclasses.asdict(instance) for instance in artifact.instances],
        "before": before,
        "after": after,
        "tasks": tasks,
        "runs": runs,
        "outside": outside(runs[0]) if runs else None,
        "machine": machine,
        "verdict": dataclasses.asdict(verdict(tasks, runs, machine, working_set)),
        "verdict_kinds": KINDS,
        "buffers": _records(artifact.buffers),
        "partitions": _records(artifact.partitions),
        "replacements": [dataclasses.asdict(made) for made in artifact.replacements],
        "near_misses": [dataclasses.asdict(miss) for miss in artifact.near_misses],
        "left_apart": _records(artifact.left_apart),
        "remarks": [
            {"pass": r.pass_name, "node": r.node, "message": r.message, "source": sources.get(r.node, "")}
            for r in artifact.remarks
        ],
    }


def judge(artifact: Any) -> Verdict:
    """Says what bounds an artifact."""
    tasks = _tasks(artifact, _graph(artifact, _last_stage(artifact)))
    runs = [dataclasses.asdict(run) for run in artifact.runs]
    return verdict(tasks, runs, at_least(limits(), tasks), _working_set(artifact.memory))


def _working_set(memory: Mapping[str, int]) -> int:
    """The number of bytes that a run touches."""
    places = ("bound_bytes_per_call", "arena_bytes", "heap_bytes", "derived_constant_bytes")
    return sum(memory[place] for place in places)


# Types that products compute with. All other types count as f32.
_COMPUTED = ("bf16", "i8")


def _tasks(artifact: Any, graph: dict[str, Any]) -> list[dict[str, Any]]:
    """The tasks, with the ``modules`` that they come from, the element ``type`` that they compute with, and whether
    they run ``python``."""
    types = {name: _computed(node) for node in graph["nodes"] for name in (node["name"], *node["values"])}
    tasks = artifact.tasks
    records = _records(tasks)
    for task, record in zip(tasks, records, strict=True):
        record["python"] = runs_python(task)
        origins = record["origin"].split(", ")
        modules = (artifact.modules.get(origin, "") for origin in origins)
        record["modules"] = list(dict.fromkeys(filter(None, modules)))
        found = {types.get(origin, "f32") for origin in origins}
        record["type"] = next((type_ for type_ in _COMPUTED if type_ in found), "f32")
    return records


def _computed(node: dict[str, Any]) -> str:
    if "int_mm" in node["op"]:
        return "i8"
    return next((type_ for type_ in _COMPUTED if any(text.startswith(type_) for text in node["types"])), "f32")


def _records(items: Sequence[Any]) -> list[dict[str, Any]]:
    """All fields of records of the extension module."""
    return [{name: getattr(item, name) for name in dir(type(item)) if not name.startswith("_")} for item in items]


def _given_options(artifact: Any) -> dict[str, str]:
    from npugraph.options import OPTIONS

    defaults = {option.name: option.default for option in OPTIONS}
    return {name: repr(value) for name, value in artifact.options.items() if value != defaults.get(name)}


def _last_stage(artifact: Any) -> str:
    return artifact._core.graph_stages()[-1]


def _before(artifact: Any) -> dict[str, Any]:
    """The graph before the first pass of any kind."""
    if artifact._original is None:
        return _graph(artifact, "import")
    graph = artifact._original.graph
    nodes = [_fx_node(node) for node in graph.nodes if node.op == "call_function" and not _is_part(node)]
    (output,) = graph.find_nodes(op="output")
    inputs = [{"name": node.name, "source": node.target} for node in graph.find_nodes(op="placeholder")]
    return {"nodes": nodes, "inputs": inputs, "outputs": _operands(output)}


def _is_part(node: fx.Node) -> bool:
    """Whether a node is one of several results of an operator."""
    return node.target is operator.getitem


def _operands(node: fx.Node) -> list[str]:
    wholes = (operand.args[0] if _is_part(operand) else operand for operand in node.all_input_nodes)
    return list(dict.fromkeys(whole.name for whole in wholes))


def _fx_node(node: fx.Node) -> dict[str, Any]:
    is_operator = hasattr(node.target, "_schema")
    return {
        "name": node.name,
        "op": str(node.target).removesuffix(".default") if is_operator else node.target.__name__,
        "reads": _operands(node),
        "values": [node.name],
        "types": [node.meta.get("tensor", "").removeprefix("torch.")],
        "source": source_line(node),
    }


def _graph(artifact: Any, stage: str) -> dict[str, Any]:
    graph = artifact._core.graph(stage)
    return {
        "nodes": [_node(described) for described in graph.nodes()],
        "inputs": [{"name": name, "source": source} for name, _, source in graph.inputs() if name is not None],
        "outputs": list(dict.fromkeys(_names(graph.outputs()))),
    }


def _node(described: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": described["name"],
        "op": described["op"],
        "reads": list(dict.fromkeys(_names([value for _, _, value in described["args"]]))),
        "values": [name for name in described["results"] if name is not None],
        "types": [type_ for type_ in described["types"] if type_],
        "source": described["source"],
    }


def _names(values: Any) -> Iterator[str]:
    """The names of the graph's values in a tree of arguments."""
    if isinstance(values, _C.Ref):
        yield values.name
    elif isinstance(values, list):
        for value in values:
            yield from _names(value)
