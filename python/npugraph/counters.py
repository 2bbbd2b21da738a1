# SPDX-License-Identifier: Apache-2.0
"""What the process counted, in the dictionary where torch keeps such counts."""

from __future__ import annotations

import collections
from typing import Any

from torch._dynamo.utils import counters

from npugraph import _C

_KEY = "npugraph_ex"


class ProcessCounts(collections.Counter):
    """What the process counted since the object was made, read anew whenever somebody looks; zeros are left out."""

    def __init__(self) -> None:
        super().__init__()
        self._before = _C.process_counters()

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
    """Makes ``torch._dynamo.utils.counters["npugraph_ex"]`` tell what has been counted since it was last cleared."""
    _C.keep_counters(counters, _KEY, ProcessCounts)


def forget() -> None:
    """Counts from zero at the next compile or call."""
    counters.pop(_KEY, None)
