# SPDX-License-Identifier: Apache-2.0
"""What python_versions.py adds to old versions of Python."""

from __future__ import annotations

import functools
import gc

import pytest

from npugraph.python_versions import qualified_name


class Outer:
    class Inner:
        def method(self) -> None: ...

    @staticmethod
    def of_class() -> None: ...

    @property
    def number(self) -> int:
        return 1

    @functools.lru_cache  # noqa: B019
    def cached(self) -> None: ...


CODES = {
    "Outer.Inner.method": Outer.Inner.method.__code__,
    "Outer.of_class": Outer.of_class.__code__,
    "Outer.number": Outer.__dict__["number"].fget.__code__,
    "Outer.cached": Outer.cached.__wrapped__.__code__,
    "qualified_name": qualified_name.__code__,
}


@pytest.mark.parametrize("name", CODES)
def test_names_of_functions_that_the_collector_does_not_know_of(name: str) -> None:
    gc.freeze()
    try:
        assert qualified_name(CODES[name]) == name
    finally:
        gc.unfreeze()
