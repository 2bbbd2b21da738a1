# SPDX-License-Identifier: Apache-2.0
"""Why a cached graph is not for a call, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch

from npugraph.inference import looks
from npugraph.inference.conditions import LOOKS, Condition
from npugraph.inference.paths import WRONG, Tree
from npugraph.inference.steps import value_of


def difference(conditions: Iterable[Condition], arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
    """The first condition that does not hold: what it looks at, how that is, and how it was at the compile. Where all
    hold it is torch's settings that differ."""
    for condition in conditions:
        if not Tree([condition]).holds(arguments, variables):
            return _described(condition, arguments, variables)
    return "settings of torch (grad mode, autocast, default dtype or device, modes) are others"


def _described(condition: Condition, arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
    if condition.kind == "holds":
        return f"{condition.source} does not hold"
    if condition.kind == "same":
        return f"{condition.source} and {condition.detail} are not the same object"
    try:
        value = value_of(condition.source, arguments, variables)
    except WRONG:
        return f"{condition.source} is not there"
    if condition.kind == "tensor":
        return _tensors(condition, value)
    return f"{condition.kind} of {condition.source} is {_look(condition, value)}, and was {condition.wanted}"


def _look(condition: Condition, value: Any) -> Any:
    try:
        return LOOKS[condition.kind](value, condition.detail)
    except (*WRONG, looks.NotPlain):
        return f"that of a {type(value).__name__}"


def _tensors(condition: Condition, value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{condition.source} is a {type(value).__name__}, and was a tensor"
    found = looks.of_tensor(value, list(value.shape), list(value.stride()))
    name = next(name for name in condition.wanted if not _fits(found[name], condition.wanted[name]))
    return f"{name} of {condition.source} is {found[name]}, and was {condition.wanted[name]}"


def _fits(found: Any, wanted: Any) -> bool:
    """Sizes and strides of a dimension that may be any are None."""
    if not isinstance(wanted, list):
        return found == wanted
    pairs = zip(found, wanted, strict=False)
    return len(found) == len(wanted) and all(want is None or have == want for have, want in pairs)
