# SPDX-License-Identifier: Apache-2.0
"""What the supported versions of Python lack, each with the version that brings it."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterator
from typing import Any

DICTS_TELL_OF_CHANGES = sys.version_info[:3] != (3, 13, 0)
"""Whether those who watch a dict, as torch does, hear of all its changes. Python 3.13.0 does not tell of attributes
that are stored in an object."""

if sys.version_info >= (3, 11):

    def add_note(error: BaseException, text: str) -> None:
        """Adds a note to an error. Python prints notes below the message from 3.11 on."""
        error.add_note(text)

    def qualified_name(code: types.CodeType) -> str:
        """The qualified name of the function that this code is of. Code knows it from Python 3.11 on."""
        return code.co_qualname

    LEVEL_OF_CALLER = 2
    """``stacklevel`` by which a method of a logger names the line that calls it. Python 3.11 begins to count behind the
    frames of logging."""

else:
    LEVEL_OF_CALLER = 1

    def add_note(error: BaseException, text: str) -> None:
        error.__notes__ = [*getattr(error, "__notes__", ()), text]

    def qualified_name(code: types.CodeType) -> str:
        owners = [owner for owner in gc.get_referrers(code) if isinstance(owner, types.FunctionType)]
        # The collector does not know of objects that were frozen.
        functions = owners or (function for function in _functions(code.co_filename) if function.__code__ is code)
        return next((function.__qualname__ for function in functions), code.co_name)

    def _functions(file: str) -> Iterator[types.FunctionType]:
        """The functions of the modules that this file holds, and the methods of their classes."""
        modules = [module for module in list(sys.modules.values()) if getattr(module, "__file__", None) == file]
        names = {module.__name__ for module in modules}
        spaces, seen = [vars(module) for module in modules], set()
        while spaces:
            for value in list(spaces.pop().values()):
                found = _undecorated(value)
                if isinstance(found, types.FunctionType):
                    yield found
                elif isinstance(found, type) and found.__module__ in names and found not in seen:
                    seen.add(found)
                    spaces.append(vars(found))

    def _undecorated(value: Any) -> Any:
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        # Not getattr: some objects have attributes of any name.
        while (inner := getattr(value, "__dict__", {}).get("__wrapped__")) is not None:
            value = inner
        return value
