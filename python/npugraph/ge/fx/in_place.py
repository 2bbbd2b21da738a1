# SPDX-License-Identifier: Apache-2.0
"""Inputs of a graph that operators of Ascend write. torch's graph writes a copy of the input, and copies it back at the
end. An operator of Ascend IR writes the input itself:

    c = clone(x)
    npu.scatter_update__in_graphs(c, ...)    ->    Scatter(x, ...)
    copy_(x, c)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import fx

from npugraph.fx.nodes import base_of
from npugraph.fx.schema import arguments_by_name, is_mutable, is_of_ascend, written_arguments
from npugraph.fx.values import is_same
from npugraph.ge.fx.views import views_of

aten = torch.ops.aten


class WrittenInput(NamedTuple):
    """``placeholder`` is written as ``copy``. A graph of GE has none of the ``dropped`` nodes, which make this copy and
    copy it back; ``copy`` is the placeholder."""

    placeholder: fx.Node
    copy: fx.Node
    dropped: tuple[fx.Node, ...]


def written_inputs(graph: fx.Graph, positions: Mapping[fx.Node, int]) -> list[WrittenInput]:
    """The inputs of a functional graph that operators of Ascend may write. ``positions`` orders the nodes."""
    copies = graph.find_nodes(op="call_function", target=aten.copy_.default)
    found = [_written_input(node) for node in copies]
    return [written for written in found if written is not None and _may_write(written, positions)]


def _written_input(copy_back: fx.Node) -> WrittenInput | None:
    """How a node ``copy_`` writes an input: the value is a copy of that input, which operators write."""
    placeholder, value = copy_back.args[:2]
    dropped = [copy_back]
    if value.target is aten.copy.default and value.args[0] is placeholder and len(value.users) == 1:  # type: ignore[union-attr]
        dropped.append(value)  # type: ignore[arg-type]
        value = value.args[1]  # type: ignore[union-attr]
    copy = source = value
    while isinstance(source, fx.Node) and source.target is aten.clone.default:
        if source is not copy and len(source.users) > 1:
            return None
        dropped.append(source)
        source = source.args[0]
    is_copy = source is placeholder and source is not copy and is_same(copy.meta["val"], source.meta["val"])  # type: ignore[union-attr]
    return WrittenInput(placeholder, copy, tuple(dropped)) if is_copy else None  # type: ignore[arg-type]


def _may_write(written: WrittenInput, positions: Mapping[fx.Node, int]) -> bool:
    """Whether all that write the copy are operators of Ascend, and nothing reads the old value of the input after the
    first of them, or returns the copy, which would then be the input."""
    users = _users(written.copy)
    writers = [user for user in users if _writes(user, written.copy)]
    if not writers or not all(is_of_ascend(writer.target) for writer in writers):
        return False
    first = min(positions[writer] for writer in writers)
    is_returned = any(user.op == "output" for user in users)
    readers = [user for user in _users(written.placeholder) if user not in written.dropped]
    return not is_returned and all(positions[reader] < first for reader in readers)


def _users(node: fx.Node) -> list[fx.Node]:
    return [user for one in (node, *views_of(node)) for user in one.users]


def _writes(node: fx.Node, base: fx.Node) -> bool:
    if not is_mutable(node.target) or node.target is aten.copy_.default:
        return False
    given = arguments_by_name(node.target, node.args, node.kwargs)
    arguments = [given.get(name) for name in written_arguments(node.target)]
    return any(isinstance(argument, fx.Node) and base_of(argument) is base for argument in arguments)
