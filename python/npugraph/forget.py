# SPDX-License-Identifier: Apache-2.0
"""Frees what torch keeps of compiles whose code is gone. ``torch._dynamo.reset()`` leaves it behind."""

from __future__ import annotations

import weakref

from torch._dynamo.guards import CheckFunctionManager
from torch._subclasses.fake_tensor import FakeTensorMode


def forget_compiles() -> None:
    """Frees the guards of compiled code that is gone, with the fake tensors and stack traces that they hold, and the
    cached results of fake operators. Call it after ``torch._dynamo.reset()``."""
    # If a guard knows an object by its identity, a finalizer of the object holds the guards. Finalizers of classes and
    # functions live as long as the process. A finalizer of code that is gone would do nothing.
    registry: dict[weakref.finalize, object] = weakref.finalize._registry  # type: ignore[attr-defined]
    for finalizer in list(registry):
        call = finalizer.peek()
        if call is not None and _is_of_gone_code(call[1]):
            finalizer.detach()
    FakeTensorMode.cache_clear()


def _is_of_gone_code(function: object) -> bool:
    manager = getattr(getattr(function, "func", None), "__self__", None)
    if not isinstance(manager, CheckFunctionManager):
        return False
    guards = getattr(manager, "guard_manager", None)
    return getattr(guards, "cache_entry", None) is None
