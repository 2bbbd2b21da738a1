# SPDX-License-Identifier: Apache-2.0
"""Finds the rows of the coverage table that hold for the tensors of a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from tests.python.fuzz.memory import elements, has_internal_overlap, overlaps, same_view, storage_key


def of_inputs(inputs: list[torch.Tensor]) -> Iterator[str]:
    for t in inputs:
        yield f"{str(t.dtype).removeprefix('torch.')}"
        if not t.is_contiguous():
            yield "non-contiguous input"
        if has_internal_overlap(t):
            yield "expanded input"
        if t.storage_offset():
            yield "input with an offset"
        yield from of_values([t])
    for number, b in enumerate(inputs):
        for a in inputs[:number]:
            if storage_key(a) != storage_key(b):
                continue
            if a is b:
                yield "same tensor twice"
            elif overlaps(a, b):
                yield "overlapping inputs"
            else:
                yield "inputs from one base, disjoint"


def of_values(tensors: list[torch.Tensor]) -> Iterator[str]:
    for t in tensors:
        if t.dim() == 0:
            yield "0-dim"
        if t.numel() == 0:
            yield "zero-size"


def of_outputs(outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> Iterator[str]:
    storages = {storage_key(t) for t in inputs}
    for number, b in enumerate(outputs):
        if any(b is t for t in inputs):
            yield "output is an input"
        elif storage_key(b) in storages:
            yield "output is a view of an input"
        if not b.is_contiguous():
            yield "non-contiguous output"
        if has_internal_overlap(b):
            yield "expanded output"
        for a in outputs[:number]:
            if a is b:
                yield "same output twice"
            elif storage_key(a) == storage_key(b) and storage_key(a) not in storages:
                yield "outputs share an intermediate"


def of_write(target: torch.Tensor, parameters: list[torch.Tensor], values: Iterable[torch.Tensor]) -> Iterator[str]:
    """Yields the rows for a write to ``target`` in a function that takes ``parameters``, while ``values`` exist."""
    sharing = [t for t in values if storage_key(t) == storage_key(target) and not same_view(t, target)]
    if any(t is target for t in parameters):
        yield "write to an input"
    elif storage_key(target) in {storage_key(t) for t in parameters}:
        yield "write to a view of an input"
    elif any(elements(t) > elements(target) for t in sharing):
        yield "write to a view of an intermediate"
    elif sharing:
        yield "write to an intermediate that has views"
    else:
        yield "write to an intermediate"
    if len({id(t) for t in parameters if overlaps(t, target)}) > 1:
        yield "write to overlapping inputs"
