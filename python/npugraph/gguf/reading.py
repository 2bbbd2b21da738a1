# SPDX-License-Identifier: Apache-2.0
"""Does work once that the packages gguf and transformers repeat each time they read from a file."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

_ENTERED = threading.RLock()  # held by the one thread that is inside; it may enter again


@contextlib.contextmanager
def read_once() -> Iterator[None]:
    """Inside of this context, each GGUF file is parsed once, whoever reads it, and the table of names of each
    architecture is made once. If contexts are nested, the outermost one remembers."""
    import gguf

    with (
        _ENTERED,
        mock.patch.object(gguf, "GGUFReader", functools.cache(_reader(gguf.GGUFReader))),
        mock.patch.object(gguf, "get_tensor_name_map", functools.cache(gguf.get_tensor_name_map)),
    ):
        yield


def _reader(base: Any) -> Any:
    """Returns the parser ``base`` on a plain array. It takes a million slices, and slices of a memmap cost several
    times more."""
    if not isinstance(base, type):
        return base  # an outer context has replaced it already

    class Reader(base):
        @property
        def data(self) -> np.ndarray:
            return self._data

        @data.setter
        def data(self, mapped: np.memmap) -> None:
            self._data = np.asarray(mapped)

    return Reader
