# SPDX-License-Identifier: Apache-2.0
"""What the supported versions of Python lack, each with the version that brings it."""

from __future__ import annotations

import gc
import sys
import types

if sys.version_info >= (3, 11):

    def add_note(error: BaseException, text: str) -> None:
        """Adds a note to an error. Python prints notes below the message from 3.11 on."""
        error.add_note(text)

    def qualified_name(code: types.CodeType) -> str:
        """The qualified name of the function that this code is of. Code knows it from Python 3.11 on."""
        return code.co_qualname

else:

    def add_note(error: BaseException, text: str) -> None:
        error.__notes__ = [*getattr(error, "__notes__", ()), text]

    def qualified_name(code: types.CodeType) -> str:
        functions = (owner for owner in gc.get_referrers(code) if isinstance(owner, types.FunctionType))
        return next((function.__qualname__ for function in functions), code.co_name)
