# SPDX-License-Identifier: Apache-2.0
"""What the packages gguf and transformers do again for each question to a file, done once."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

_ENTERED = threading.RLock()  # by one thread, which may nest


@contextlib.contextmanager
def read_once() -> Iterator[None]:
    """While entered, each GGUF file is parsed once, whoever asks for it, and each architecture's table of names is made
    once. Of several that are nested the outermost one remembers."""
    import gguf

    with (
        _ENTERED,
        mock.patch.object(gguf, "GGUFReader", functools.cache(_reader(gguf.GGUFReader))),
        mock.patch.object(gguf, "get_tensor_name_map", functools.cache(gguf.get_tensor_name_map)),
    ):
        yield


def _reader(base: Any) -> Any:
    """The parser ``base`` on a plain array: it takes a million slices, which cost several times more of a memmap."""
    if not isinstance(base, type):
        return base  # of an outer one

    class Reader(base):
        @property
        def data(self) -> np.ndarray:
            return self._data

        @data.setter
        def data(self, mapped: np.memmap) -> None:
            self._data = np.asarray(mapped)

    return Reader
