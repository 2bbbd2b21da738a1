# SPDX-License-Identifier: Apache-2.0
"""The counters of the process, in the dictionary where torch keeps such counters."""

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
    """The counts of the process beyond ``before``, by default since the object was made. Every access reads the
    counters anew. Zeros are left out."""

    def __init__(self, before: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self._before = _C.process_counters() if before is None else before

    def _read(self) -> None:
        for name, value in _C.process_counters().items():
            gained = value - self._before.get(name, 0)
            if gained > 0:
                super().__setitem__(name, gained)
            else:  # a count falls when captured graphs are dropped
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
    """Makes ``torch._dynamo.utils.counters["npugraph_ex"]`` show the counts since it was last cleared. If torch._dynamo
    is imported later, the entry is made then and shows all counts of the process."""
    global _waits
    home = sys.modules.get(_HOME)
    if home is not None:
        _C.keep_counters(home.counters, _KEY, ProcessCounts)
    elif not _waits:
        _waits = True
        after_import(_HOME, _install_all)


_waits = False  # for the import of torch._dynamo; a process that only loads graphs from files does not import it


def _install_all(home: ModuleType) -> None:
    home.counters[_KEY] = ProcessCounts(MappingProxyType({}))
    _C.keep_counters(home.counters, _KEY, ProcessCounts)


def forget() -> None:
    """Makes the counts start from zero at the next compile or call."""
    home = sys.modules.get(_HOME)
    if home is not None:
        home.counters.pop(_KEY, None)
