# SPDX-License-Identifier: Apache-2.0
"""Turns Dynamo's sources into steps from the arguments (L) or the global variables (G) to a value."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping
from typing import Any

from npugraph.fx.dynamo import restricted

Step = tuple[bool, str | int]  # whether the step is an attribute; the name of the attribute or the key of an item

_STEP = re.compile(r"\.([A-Za-z_]\w*)|\[('(?:[^'\\]|\\.)*'|-?\d+)\]")


@functools.lru_cache(maxsize=65536)
def steps_of(source: str) -> tuple[Step, ...] | None:
    """Returns a source such as ``L['x'].keys[0]`` as steps, the first of which is "L" or "G". Returns None for a source
    of another form."""
    steps: list[Step] = [(True, source[:1])]
    at = 1
    while at < len(source):
        found = _STEP.match(source, at)
        if found is None:
            return None
        name, key = found.groups()
        steps.append((True, name) if name else (False, _key(key)))
        at = found.end()
    return tuple(steps) if source[:1] in ("L", "G") and at > 1 else None


def _key(text: str) -> str | int:
    if "\\" in text:
        return ast.literal_eval(text)
    return text[1:-1] if text[0] == "'" else int(text)


def value_of(source: str, arguments: Mapping[str, Any], variables: Mapping[str, Any]) -> Any:
    steps = steps_of(source)
    if steps is None:
        return restricted.evaluate(source, arguments, variables)
    value: Any = arguments if steps[0][1] == "L" else variables
    for step in steps[1:]:
        value = getattr(value, step[1]) if step[0] else value[step[1]]
    return value
