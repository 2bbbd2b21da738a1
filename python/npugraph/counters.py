# SPDX-License-Identifier: Apache-2.0
"""What the process counted, in the dictionary where torch keeps such counts."""

from __future__ import annotations

import collections
import sys
from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from npugraph import _C
from npugraph.after_import import after_import

_HOME = "torch._dynamo.utils"
_KEY = "npugraph_ex"


class ProcessCounts(collections.Counter):
    """What the process counted since the object was made, or else beyond ``before``, read anew whenever somebody looks;
    zeros are left out."""

    def __init__(self, before: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self._before = _C.process_counters() if before is None else before

    def _read(self) -> None:
        for name, value in _C.process_counters().items():
            gained = value - self._before.get(name, 0)
            if gained > 0:
                super().__setitem__(name, gained)
            else:  # captured graphs may have been dropped
                super().pop(name, None)

    def clear(self) -> None:
        super().clear()
        self._before = _C.process_counters()


def _reading(name: str) -> Any:
    read = getattr(collections.Counter, name)

    def method(self: ProcessCounts, *args: Any) -> Any:
        self._read()
        return read(self, *args)

    return method


_READS = ("__contains__", "__eq__", "__getitem__", "__iter__", "__len__", "__repr__", "__reduce__")
for _name in (*_READS, "get", "items", "keys", "values"):
    setattr(ProcessCounts, _name, _reading(_name))


def install() -> None:
    """Makes ``torch._dynamo.utils.counters["npugraph_ex"]`` tell what has been counted since it was last cleared. Where
    torch._dynamo is not imported it will tell what has been counted in all, when somebody imports it."""
    global _waits
    home = sys.modules.get(_HOME)
    if home is not None:
        _C.keep_counters(home.counters, _KEY, ProcessCounts)
    elif not _waits:
        _waits = True
        after_import(_HOME, _install_all)


_waits = False  # for the import of torch._dynamo, which a process with graphs from files alone does not need


def _install_all(home: ModuleType) -> None:
    home.counters[_KEY] = ProcessCounts(MappingProxyType({}))
    _C.keep_counters(home.counters, _KEY, ProcessCounts)


def forget() -> None:
    """Counts from zero at the next compile or call."""
    home = sys.modules.get(_HOME)
    if home is not None:
        home.counters.pop(_KEY, None)
