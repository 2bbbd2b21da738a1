# SPDX-License-Identifier: Apache-2.0
"""FX -> FX before the import: undoes wrappers that torch has put around operators."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._higher_order_ops.auto_functionalize import auto_functionalized, auto_functionalized_v2
from torch._higher_order_ops.effects import with_effects

from npugraph.fx.decompose.functional_forms import expand_functional_forms
from npugraph.fx.decompose.random_states import has_repeated_draws, unwrap_repeated_draws
from npugraph.fx.decompose.rounded_numbers import round_numbers
from npugraph.fx.decompose.triton_wrappers import name_kernels
from npugraph.fx.decompose.working_copies import write_working_copies
from npugraph.fx.nodes import add_call, base_of, geometry, on_other_bases, storage_elements
from npugraph.fx.schema import is_view
from npugraph.fx.values import evaluate

aten = torch.ops.aten


def prepare(gm: fx.GraphModule) -> fx.GraphModule:
    """Replaces operators that were wrapped for their effects, made functional, or wrapped by checkpoints, by the
    operators themselves, and gives operators the numbers that eager computes with. In place.

    Inputs that only order effects are marked with ``meta["effect_token"]``. Calls pass None for them.
    """
    name_kernels(gm.graph)
    targets = {node.target for node in gm.graph.nodes}
    if with_effects in targets:
        _unwrap_effects(gm.graph)
    if auto_functionalized in targets or auto_functionalized_v2 in targets:
        expand_functional_forms(gm)
        write_working_copies(gm.graph)
        _undo_auto_functionalized_graphs(gm)
        with _in_fake_mode_of(gm):
            _refresh_values(gm.graph)
        gm.graph.eliminate_dead_code()
        gm.recompile()
    if has_repeated_draws(gm.graph):
        with _in_fake_mode_of(gm):
            unwrap_repeated_draws(gm.graph)
    round_numbers(gm.graph)
    _copy_whole_storages(gm.graph)
    _keep_offsets(gm.graph)
    return gm


def _copy_whole_storages(graph: fx.Graph) -> None:
    """Replaces the forms of ``as_strided`` that copy. Their offsets count from the start of the storage, but a task
    sees its arguments only. So they become copies of what they name: of a window, or of the storage around the
    argument."""
    for node in list(graph.nodes):
        if node.target is aten.as_strided_copy.default:
            with graph.inserting_before(node):
                window = add_call(graph, node, aten.as_strided.default, *node.args, **node.kwargs)
                copy = add_call(graph, node, aten.clone.default, window, memory_format=torch.contiguous_format)
        elif node.target is aten.as_strided_scatter.default and not _starts_its_storage(node.args[0]):
            with graph.inserting_before(node):
                copy = _scatter_into_storage(graph, node, *node.args, **node.kwargs)
        else:
            continue
        node.replace_all_uses_with(copy)
        graph.erase_node(node)


def _starts_its_storage(node: fx.Node) -> bool:
    offset = node.meta["val"].storage_offset()
    return isinstance(offset, int) and offset == 0


def _scatter_into_storage(
    graph: fx.Graph,
    node: fx.Node,
    self: fx.Node,
    src: fx.Node,
    size: object,
    stride: object,
    storage_offset: object = None,
) -> fx.Node:
    sizes, strides, offset = geometry(graph, self)
    storage = add_call(graph, node, aten.as_strided.default, self, [storage_elements(graph, self)], [1], 0)
    start = offset if storage_offset is None else storage_offset
    filled = add_call(graph, node, aten.as_strided_scatter.default, storage, src, size, stride, start)
    return add_call(graph, node, aten.as_strided.default, filled, sizes, strides, offset)


# Their results have the strides and the storage offset of the first argument, even if the fake result has offset 0.
_COPIES_WITH_PLACE = {
    aten.copy.default,
    aten.slice_scatter.default,
    aten.select_scatter.default,
    aten.diagonal_scatter.default,
    aten.as_strided_scatter.default,
}


def _keep_offsets(graph: fx.Graph) -> None:
    """Moves outputs to the storage offsets that they have in eager mode. Some operators copy their argument with its
    place in its storage. If the copy or a view of it is an output, AOTAutograd may take that place for the place in the
    caller's memory, so the output must have it."""
    output = graph.output_node()
    moved: dict[fx.Node, fx.Node] = {}
    for node in output.all_input_nodes:
        copy = base_of(node)
        place = _place_of(copy)
        value = place.meta.get("val")
        if not isinstance(copy.target, torch._ops.OpOverload) or not isinstance(value, torch.Tensor):
            continue
        if value.layout is torch.strided and value.storage_offset() != 0:
            with graph.inserting_before(output):
                if copy not in moved:
                    moved[copy] = _at_offset(graph, copy, place)
                output.replace_input_with(node, on_other_bases(graph, node, moved))


def _place_of(node: fx.Node) -> fx.Node:
    """The node that ``node`` has its storage offset from."""
    while node.target in _COPIES_WITH_PLACE and 0 not in node.args[0].meta["val"].stride():
        node = node.args[0]
    return node


def _at_offset(graph: fx.Graph, node: fx.Node, place: fx.Node) -> fx.Node:
    """Makes a window in a new storage, with the values and strides of ``node`` and the storage offset of ``place``."""
    call = functools.partial(add_call, graph, node)
    sizes, strides, offset = geometry(graph, place)
    storage = call(aten.new_empty.default, node, [storage_elements(graph, place)])
    filled = call(aten.as_strided_scatter.default, storage, node, sizes, strides, offset)
    return call(aten.as_strided.default, filled, sizes, strides, offset)


def _fake_mode_of(gm: fx.GraphModule) -> Any:
    values = [node.meta.get("val") for node in gm.graph.nodes]
    return detect_fake_mode([value for value in values if isinstance(value, torch.Tensor)])


def _in_fake_mode_of(gm: fx.GraphModule) -> contextlib.AbstractContextManager[Any]:
    return _fake_mode_of(gm) or contextlib.nullcontext()


def _undo_auto_functionalized_graphs(gm: fx.GraphModule) -> None:
    """Undoes the functional forms of higher-order operators, as torch does it."""
    if not any(node.target in (auto_functionalized, auto_functionalized_v2) for node in gm.graph.nodes):
        return
    from torch._inductor.fx_passes.post_grad import decompose_auto_functionalized
    from torch._inductor.fx_passes.reinplace import (
        canonicalize_view_scatter_ops,
        decompose_generalized_scatter,
        reinplace_inplaceable_ops_core,
    )
    from torch._inductor.virtualized import V

    fake_mode = _fake_mode_of(gm)
    with V.set_fake_mode(fake_mode), _in_fake_mode_of(gm):
        canonicalize_view_scatter_ops(gm.graph)
        reinplace_inplaceable_ops_core(gm.graph)
        decompose_generalized_scatter(gm.graph)
        decompose_auto_functionalized(gm.graph)


def _unwrap_effects(graph: fx.Graph) -> None:
    """Marks effect tokens, and unwraps ATen operators without results. These are effects by themselves, so the graph
    keeps them in their order."""
    for node in list(graph.nodes):
        if node.target is not with_effects:
            continue
        token, operator, *args = node.args
        if token.op == "placeholder":
            token.meta["effect_token"] = True
        if not isinstance(operator, torch._ops.OpOverload) or operator.namespace != "aten" or operator._schema.returns:
            continue
        with graph.inserting_before(node):
            plain = graph.call_function(operator, tuple(args), dict(node.kwargs))
        plain.meta = {key: value for key, value in node.meta.items() if key != "val"}
        for item in list(node.users):
            item.replace_all_uses_with(token)
            graph.erase_node(item)
        graph.erase_node(node)


def _refresh_values(graph: fx.Graph) -> None:
    """Evaluates the nodes whose values are wrong after the rewrite: nodes without a value, views whose value has other
    memory than that of their base, and operators without results that have the values of their functional form."""
    for node in graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload) or node.meta.get("unbacked_bindings"):
            continue
        if "val" in node.meta and not is_view(node.target) and node.target._schema.returns:
            continue
        node.meta["val"] = evaluate(node)
