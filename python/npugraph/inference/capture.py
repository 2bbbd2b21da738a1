# SPDX-License-Identifier: Apache-2.0
"""Compiles the graph of a method, with what other processes need to use it: conditions, recipe, sources."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import fx
from torch._dynamo import config as dynamo_config
from torch._dynamo import convert_frame
from torch._dynamo.eval_frame import set_enable_dynamic
from torch._dynamo.utils import dynamo_timed, get_metrics_context
from torch._dynamo.variables.torch_function import torch_function_mode_stack_state_mgr
from torch._guards import TracingContext, tracing

from npugraph import _C
from npugraph.artifact import Artifact, artifacts
from npugraph.fx.dynamo import recipe
from npugraph.fx.translate.raise_fx import find_operator
from npugraph.inference import conditions, plain_values, source_files
from npugraph.inference.method import NotCacheable, name_of, source_of_owner
from npugraph.stored import programs

Backend = Callable[[fx.GraphModule, Any], Any]


@dataclasses.dataclass
class Captured:
    """A compiled graph, and its record for the file."""

    artifact: Artifact
    record: dict[str, Any]
    program: bytes


_GLOBAL = re.compile(r"\bG\['(\w+)'\]")


def capture(
    method: types.MethodType, args: Any, kwargs: Any, arguments: Mapping[str, Any], dynamic: bool, backend: Backend
) -> Captured:
    """Compiles ``method`` for arguments like these without running it. ``arguments`` is what ``arguments_of`` returns
    for them. Raises ``NotCacheable``, which says why other processes could not use the graph, and ``AssertionError`` if
    the method draws random numbers. Errors of Dynamo and the backend pass through."""
    with as_torch_compile_traces(dynamic):
        traced = convert_frame.fullgraph_capture(method, args, kwargs)
        output, graph = traced.graph_capture_output, traced.backend_input
        if graph is None:
            raise NotCacheable("it calls no operator")
        outputs = _without_inputs(graph.graph_module)
        context = TracingContext(graph.fake_mode)
        context.tensor_to_context = graph.tensor_to_context
        before = artifacts()
        with tracing(context):
            compiled = backend(graph.graph_module, graph.example_inputs)
    made = [artifact for artifact in artifacts() if artifact not in before]
    for artifact in made:
        _refuse_random_operators(method, artifact)
    is_plain = isinstance(compiled, _C.Callable) or (len(made) == 1 and _is_plain(context.fw_metadata))
    if not is_plain or (made[0].needs_python and made[0].outputs is None):
        raise NotCacheable("its graph needs Python at each call, as eager parts do, or returns views of its inputs")
    texts = made[0].outputs
    outputs = [value if isinstance(value, str) else texts[value] if texts else f"out[{value}]" for value in outputs]
    return _record(method, arguments, output, graph, outputs, made[0])


def _is_plain(metadata: Any) -> bool:
    """Whether the graph takes the inputs of Dynamo's graph and returns its outputs, so that nothing has to run around
    it. There is no metadata if AOTAutograd has not made it."""
    return metadata is None or not (
        metadata.tokens
        or metadata.num_outputs_aliased
        or metadata.num_intermediate_bases
        or metadata.num_mutated_inp_runtime_indices
    )


@contextlib.contextmanager
def as_torch_compile_traces(dynamic: bool) -> Iterator[None]:
    """Lets ``fullgraph_capture`` trace as ``torch.compile`` does."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(get_metrics_context())
        stack.enter_context(dynamo_timed("fullgraph_capture"))
        # Numbers of type float are constants: most are settings of the model.
        stack.enter_context(dynamo_config.patch(specialize_float=True))
        stack.enter_context(set_enable_dynamic(dynamic))
        stack.enter_context(torch_function_mode_stack_state_mgr)
        yield


def _without_inputs(gm: fx.GraphModule) -> list[str | int]:
    """Removes outputs of the graph that are inputs in another guise (for example ``to`` the same device). Returns for
    each output where it is now: its index among the outputs, or its source as a text for recipes."""
    inputs = {}
    for node in gm.graph.find_nodes(op="placeholder"):
        if isinstance(node.meta.get("example_value"), torch.Tensor):
            inputs[_window(node.meta["example_value"])] = node._dynamo_source.name
    kept: list[Any] = []
    places: list[str | int] = []
    node = gm.graph.output_node()
    for value in node.args[0]:
        example = value.meta.get("example_value") if isinstance(value, fx.Node) else None
        source = inputs.get(_window(example)) if isinstance(example, torch.Tensor) else None
        if source is None:
            kept.append(value)
        places.append(source or len(kept) - 1)
    node.args = (tuple(kept),)
    gm.recompile()
    return places


def _window(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Returns which memory a fake tensor covers, and how it is read: type, lazy bits, sizes, strides and offset."""
    place = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    return tensor.untyped_storage()._cdata, tensor.dtype, tensor.is_conj(), tensor.is_neg(), *map(str, place)


def _record(
    method: Any, arguments: Mapping[str, Any], output: Any, graph: Any, outputs: list[str], artifact: Artifact
) -> Captured:
    guarded = output.output_graph
    try:
        found = conditions.of_guards(guarded, arguments, output.f_globals)
        result = recipe.describe(output.bytecode, graph.backend_id, output.f_globals, outputs)
        traced = [*output.traced_code, method.__code__]
        sources = source_files.digests(traced)
        program = programs.bytes_of(artifact)
    except (conditions.NotTestable, recipe.NotDescribed, ValueError) as reason:
        raise NotCacheable(str(reason)) from None
    of_owner = conditions.Condition("type", source_of_owner(method), plain_values.of_class(type(method.__self__)))
    found = [of_owner, *found]
    if artifact.condition:
        found.append(conditions.Condition("holds", artifact.condition, True))
    texts = [result, *(f"{condition.source} {condition.detail}" for condition in found)]
    record = {
        "conditions": [condition.as_json() for condition in found],
        "modules": _modules({name for text in texts for name in _GLOBAL.findall(text)}, output.f_globals, method),
        "sources": sources,
        "functions": source_files.places(traced),
        "torch_state": plain_values.of_torch_state(),
        "result": result,
        "graph": graph.graph_module.print_readable(print_output=False),
    }
    return Captured(artifact, json.loads(json.dumps(record)), program)  # the record is as if it came from a file


def _modules(names: set[str], variables: Mapping[str, Any], method: types.MethodType) -> dict[str, str]:
    modules = {}
    for name in sorted(names):
        if name.startswith("__builtins_dict__"):
            continue
        value = variables.get(name)
        if isinstance(value, types.ModuleType):
            modules[name] = value.__name__
        elif name not in method.__func__.__globals__ or re.search(r"_\d+_c\d+$", name):
            raise NotCacheable(f"it depends on {name}, which other processes do not have")
    return modules


def _refuse_random_operators(method: Any, artifact: Artifact) -> None:
    for node in artifact._core.graph("import").nodes():
        if node["op"].startswith(("python.", "nested.")):
            continue
        operator = find_operator(node["op"])
        given = {name: value for name, _, value in node["args"]}
        draws = torch.Tag.nondeterministic_seeded in operator.tags and given.get("dropout_p") != 0
        if draws:
            raise AssertionError(
                f"cache_compile takes no random operators, but {name_of(method)} calls {operator}; use torch.compile"
            )
