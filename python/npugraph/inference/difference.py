# SPDX-License-Identifier: Apache-2.0
"""Says in words why a cached graph does not fit a call."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from npugraph.inference import plain_values
from npugraph.inference.conditions import LOOKS, Condition
from npugraph.inference.paths import WRONG, Tree
from npugraph.inference.steps import value_of

_STATE = "settings of torch (grad mode, autocast, default dtype or device, modes) are others"
_WORDS = {
    "in attributes": "attribute",
    "contains": "element",
    "has": "attribute",
    "lazy": "conjugate and negative bits",
}


def difference(conditions: Iterable[Condition], arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
    """Describes the first condition that does not hold: what it looks at, how that is, and how it was at the compile.
    If all conditions hold, torch's settings differ. Raises nothing, because the call goes on afterwards."""
    try:
        failed = next((c for c in conditions if not Tree([c]).holds(arguments, variables)), None)
        return _STATE if failed is None else _described(failed, arguments, variables)
    except Exception as error:  # the user's own properties and methods may raise anything
        return f"a condition cannot be looked at: {type(error).__name__}: {error}"


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
    what = _WORDS.get(condition.kind, condition.kind)
    if condition.detail is not None:
        what = f"{what} {reprlib.repr(condition.detail)}"
    return f"{what} of {condition.source} is {_look(condition, value)}, and was {reprlib.repr(condition.wanted)}"


def _look(condition: Condition, value: Any) -> str:
    try:
        return reprlib.repr(LOOKS[condition.kind](value, condition.detail))
    except (*WRONG, plain_values.NotPlain):
        return f"that of a {type(value).__name__}"


def _tensors(condition: Condition, value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{condition.source} is a {type(value).__name__}, and was a tensor"
    is_strided = value.layout is torch.strided
    found = plain_values.of_tensor(value, list(value.shape), list(value.stride()) if is_strided else None)
    for name, wanted in condition.wanted.items():
        if not _fits(found[name], wanted):
            was = [size if size is not None else "any" for size in wanted] if isinstance(wanted, list) else wanted
            return f"{_WORDS.get(name, name)} of {condition.source} is {found[name]}, and was {was}"
    return f"{condition.source} changed while it was looked at"


def _fits(found: Any, wanted: Any) -> bool:
    return plain_values.match(found, wanted) if isinstance(found, list) else found == wanted
