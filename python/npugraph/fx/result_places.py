# SPDX-License-Identifier: Apache-2.0
"""Results that AOTAutograd makes from places: it takes sizes, strides and storage offset of a result, and makes a view
of an input from them. The result must have the offset of that view. But an input may start anywhere in its storage, and
in the graph of AOTAutograd results are views of the new values of a written input, which start theirs:

    y = x.mul(2)      # x may be base[1:]
    x.copy_(y)
    return y[: n]     # becomes x[: n]
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import fx
from torch._functorch._aot_autograd.schemas import OutputAliasInfo, OutputType, ViewAndMutationMeta
from torch._guards import TracingContext

from npugraph.fx.nodes import on_other_bases

aten = torch.ops.aten


def description() -> ViewAndMutationMeta | None:
    """What AOTAutograd says of the graph that is being compiled. None if the graph is not from AOTAutograd."""
    context = TracingContext.try_get()
    return context and context.fw_metadata


def give_places(graph: fx.Graph, facts: ViewAndMutationMeta) -> None:
    """Makes results views of inputs where AOTAutograd takes places from them. ``facts`` is its description of the
    graph, which is for inference, or the forward graph of training."""
    output, first = graph.output_node(), len(facts.tokens)
    inputs, results = graph.find_nodes(op="placeholder")[first:], list(output.args[0])
    if len(inputs) != len(facts.input_info):
        return  # tensors of which some are subclasses
    writes = graph.find_nodes(op="call_function", target=aten.copy_.default)
    new_values = {write.args[0]: write.args[1] for write in writes}
    for i, index in enumerate(facts.mutated_inp_runtime_indices, first):
        if facts.input_info[index].mutates_data:
            new_values[inputs[index]] = results[i]
    # For each input: its new values and their views, with what takes their place.
    others = {written: {new: written} for written, new in new_values.items()}
    with graph.inserting_before(output):  # after all writes
        for i, index in _results_with_places(facts):
            i += first + facts.num_mutated_inp_runtime_indices
            results[i] = on_other_bases(graph, results[i], others.get(inputs[index], {}))
    output.args = (tuple(results), *output.args[1:])


def _results_with_places(facts: ViewAndMutationMeta) -> Iterator[tuple[int, int]]:
    """The indices of results from whose places AOTAutograd makes views of inputs, each with the index of the input."""
    for i, result in enumerate(facts.output_info):
        if result.output_type is OutputType.alias_of_input and not _calls_views(result):
            yield i, result.base_idx


def _calls_views(result: OutputAliasInfo) -> bool:
    """Whether AOTAutograd calls the operators that made a view of an input, and needs no place."""
    views = result.view_meta_sequence
    return views is not None and not any(view.has_symbolic_inputs for view in views.sequence)
