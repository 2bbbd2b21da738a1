# SPDX-License-Identifier: Apache-2.0
"""Inputs that share a storage. AOTAutograd compiles the written ones among them as windows at fixed places in one
base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from npugraph.fx.values import is_strided


class Place(NamedTuple):
    """The place of an input in a storage that several inputs share."""

    index: int  # index of the input
    leader: int  # index of the first input in this storage
    offset: int  # of the input in the storage, in elements
    nbytes: int  # of the storage


def shared_storages(inputs: Sequence[Any]) -> list[Place]:
    """Returns the places of all inputs that share a storage with another input."""
    first: dict[int, int] = {}
    shared: dict[int, Place] = {}
    for index, tensor in enumerate(inputs):
        if not is_strided(tensor):
            continue
        leader = first.setdefault(tensor.untyped_storage()._cdata, index)
        if leader != index:
            shared[leader] = _place(inputs, leader, leader)
            shared[index] = _place(inputs, index, leader)
    return list(shared.values())


def are_shared_as(inputs: Sequence[Any], shared: Sequence[Place]) -> bool:
    """Whether these inputs share storages as other inputs did, for which ``shared_storages`` returned ``shared``."""
    return all(
        _place(inputs, place.index, place.leader) == place
        and inputs[place.index].untyped_storage()._cdata == inputs[place.leader].untyped_storage()._cdata
        for place in shared
    )


def _place(inputs: Sequence[Any], index: int, leader: int) -> Place:
    return Place(index, leader, inputs[index].storage_offset(), inputs[index].untyped_storage().nbytes())
