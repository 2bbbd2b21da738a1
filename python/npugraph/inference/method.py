# SPDX-License-Identifier: Apache-2.0
"""The names of a cached method's arguments and variables, and the error for a method that cannot be cached."""

from __future__ import annotations

import inspect
import types
from typing import Any

from npugraph.fx.dynamo.callers import local_variables


class NotCacheable(Exception):
    """A function that can be compiled, but not for other processes."""


def arguments_of(method: types.MethodType, signature: inspect.Signature, args: Any, kwargs: Any) -> dict[str, Any]:
    """Returns what Dynamo calls L. Raises ``TypeError`` as a call does."""
    return local_variables(method.__func__, signature, (method.__self__, *args), kwargs)


def source_of_owner(method: types.MethodType) -> str:
    """Returns the source of the module among the arguments of its method."""
    first = next(iter(inspect.signature(method.__func__, follow_wrapped=False).parameters.values()))
    return f"L[{first.name!r}]" + "[0]" * (first.kind is inspect.Parameter.VAR_POSITIONAL)


def name_of(method: Any) -> str:
    return f"{type(method.__self__).__name__}.{method.__func__.__name__}"
