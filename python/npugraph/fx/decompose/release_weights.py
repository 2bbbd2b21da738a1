# SPDX-License-Identifier: Apache-2.0
"""Frees weights of which a graph reads only what it computes from weights alone, such as their casts under autocast:
option ``release_original_weights``.

These values are computed once and become constants of the graph. Everything else reads weights where they are, so no
graph needs a second copy of a weight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import fx

from npugraph import _C
from npugraph.fx.schema import is_view

# Attributes of a weight: the values that graphs derived from it, by expression, for graphs of other sizes; and whether
# its memory is freed.
_DERIVED, _RELEASED = "_npugraph_derived", "_npugraph_released"

# The nodes that are computed from weights alone, each with these weights.
_Computed = Mapping[fx.Node, frozenset[fx.Node]]


@dataclass
class Release:
    """The weights that a graph does not read any more, by their names in the program."""

    weights: dict[str, torch.Tensor] = field(default_factory=dict)

    def sizes(self) -> dict[str, int]:
        """The bytes of each weight."""
        return {name: weight.nbytes for name, weight in self.weights.items()}

    def carry_out(self, graph: str) -> None:
        """Frees the memory of the weights. A later access to a weight raises a ``RuntimeError`` that says why."""
        for name, weight in self.weights.items():
            _C.free_storage(
                weight,
                f"the memory of weight {name} was given back: graph {graph} was compiled with "
                "release_original_weights=True and keeps what it computed from it. Eager calls, other graphs, "
                "state_dict() and load_state_dict() need the weights: build or load the model again",
            )
            setattr(weight, _RELEASED, True)


def derive(gm: fx.GraphModule, weights: Mapping[fx.Node, torch.Tensor], names: Mapping[fx.Node, str]) -> Release:
    """Replaces values that are computed from ``weights`` alone by constants in ``gm``, a functional graph. It does so
    only if whole weights are unread then, and if the constants take no more memory than these weights. ``weights`` are
    the placeholders of parameters with their values. ``names`` are the names that people know. Nothing is freed before
    ``carry_out``."""
    evaluator = _Evaluator(weights)
    computed = _computed_from(gm.graph, weights)
    wanted = _profitable(computed, weights, evaluator)
    constants: dict[str, fx.Node] = {}
    for node in wanted:
        key = evaluator.key(node)
        if key not in constants:
            constants[key] = _add_constant(gm, node, evaluator.value(node))
        node.replace_all_uses_with(constants[key])
    gm.graph.eliminate_dead_code()
    unread = frozenset().union(*(computed[node] for node in wanted))
    return Release(
        {names[node]: weights[node] for node in weights if node in unread and not _is_released(weights[node])}
    )


def _is_released(weight: torch.Tensor) -> bool:
    return getattr(weight, _RELEASED, False)


def _add_constant(gm: fx.GraphModule, like: fx.Node, value: torch.Tensor) -> fx.Node:
    name = f"_derived_{len(list(gm.buffers()))}"
    gm.register_buffer(name, value, persistent=False)
    with gm.graph.inserting_before(like):
        constant = gm.graph.get_attr(name)
    constant.meta |= like.meta | {"derived": True}
    return constant


def _computed_from(graph: fx.Graph, weights: Iterable[fx.Node]) -> _Computed:
    """The weights, and the nodes that read nothing else. Each has the set of weights that it is computed from."""
    computed = {node: frozenset([node]) for node in weights}
    for node in graph.nodes:
        sources = [computed.get(operand, frozenset()) for operand in node.all_input_nodes]
        if sources and all(sources) and _is_function_of_operands(node):
            computed[node] = frozenset().union(*sources)
    return computed


def _is_function_of_operands(node: fx.Node) -> bool:
    target, value = node.target, node.meta.get("val")
    if not isinstance(target, torch._ops.OpOverload) or not isinstance(value, torch.Tensor):
        return False
    known = not any(isinstance(size, torch.SymInt) for size in value.shape)
    return known and not target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in target.tags


def _profitable(computed: _Computed, weights: Iterable[fx.Node], evaluator: _Evaluator) -> list[fx.Node]:
    """The nodes that become constants, in order. Nothing else reads the weights that they are computed from. Empty if
    the constants would take more memory than these weights."""
    wanted = [node for node in computed if _is_fresh(node) and _is_read_by_others(node, computed)]
    # A reader of a view of a weight reads the weight.
    unread = {node for node in weights if node.users and not _is_read_by_others(node, computed)}
    while refused := {node for node in wanted if not computed[node] <= unread}:
        wanted = [node for node in wanted if node not in refused]
        unread -= frozenset().union(*(computed[node] for node in refused))
    derived = {evaluator.key(node): _bytes(node) for node in wanted}
    return wanted if sum(derived.values()) <= sum(map(_bytes, unread)) else []


def _is_fresh(node: fx.Node) -> bool:
    """Whether the node makes memory of its own."""
    return node.op == "call_function" and not is_view(node.target)


def _is_read_by_others(node: fx.Node, computed: Collection[fx.Node]) -> bool:
    """Whether a node outside of ``computed`` reads the node or a view of it."""
    return any(
        user not in computed or (not _is_fresh(user) and _is_read_by_others(user, computed)) for user in node.users
    )


def _bytes(node: fx.Node) -> int:
    value = node.meta["val"]
    return value.numel() * value.element_size()


class _Evaluator:
    """Computes the values of nodes that are computed from weights alone. Values that an earlier graph derived are
    reused."""

    def __init__(self, weights: Mapping[fx.Node, torch.Tensor]) -> None:
        self._weights = weights
        self._keys = {node: f"weight {id(weight)}" for node, weight in weights.items()}

    def key(self, node: fx.Node) -> str:
        """A text that is equal for values that are computed in the same way from the same tensors."""
        if node not in self._keys:
            arguments = fx.map_arg((node.args, node.kwargs), self.key)
            self._keys[node] = f"{node.target}{arguments}"
        return self._keys[node]

    def value(self, node: fx.Node) -> torch.Tensor:
        known = self._first_weight(node).__dict__.setdefault(_DERIVED, {})
        key = self.key(node)
        if key not in known:
            with torch.no_grad():
                known[key] = self._evaluate(node)
        return known[key]

    def _first_weight(self, node: fx.Node) -> torch.Tensor:
        while node not in self._weights:
            node = node.all_input_nodes[0]
        return self._weights[node]

    def _evaluate(self, node: fx.Node) -> torch.Tensor:
        if node in self._weights:
            return self._weights[node].detach()
        args, kwargs = fx.map_arg((node.args, node.kwargs), self._evaluate)
        return node.target(*args, **kwargs)
