# SPDX-License-Identifier: Apache-2.0
"""``torch.npu.aclnn``: the switch of ``torch.npu.conv`` that allows hf32 in convolutions, under another name."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType

from torch.backends import PropModule

from torch_npu.npu.aclnn.backends import version
from torch_npu.npu.backends import conv

__all__ = ["allow_hf32", "version"]


def set_flags(_allow_hf32: bool | None = None) -> tuple[bool]:
    """Sets the switch unless the argument is None. Returns the earlier value."""
    before = (conv.allow_hf32,)
    if _allow_hf32 is not None:
        conv.allow_hf32 = _allow_hf32
    return before


@contextlib.contextmanager
def flags(allow_hf32: bool = True) -> Iterator[None]:
    """Context manager that sets the switch to ``allow_hf32`` inside of it."""
    before = set_flags(allow_hf32)
    try:
        yield
    finally:
        set_flags(*before)


class AclnnModule(PropModule):
    """This module with a switch that can be set."""

    def __init__(self, m: ModuleType, name: str):
        super().__init__(m, name)

    @property
    def allow_hf32(self) -> bool:
        return conv.allow_hf32

    @allow_hf32.setter
    def allow_hf32(self, value: bool) -> None:
        set_flags(value)


sys.modules[__name__] = AclnnModule(sys.modules[__name__], __name__)
