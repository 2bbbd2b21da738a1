# SPDX-License-Identifier: Apache-2.0
"""Marks and ranges of a script, as ranges of torch's profiler."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterator

import torch

__all__ = ["annotate", "mstx"]

_ids = itertools.count(1)
_started: dict[tuple[str, int], torch.autograd.profiler.record_function] = {}
_pushed = threading.local()


def _stack(domain: str) -> list[torch.autograd.profiler.record_function]:
    return _pushed.__dict__.setdefault(domain, [])


def _enter(message: str) -> torch.autograd.profiler.record_function:
    if not isinstance(message, str):
        raise TypeError(f"mstx: message is {message!r}, and must be a string")
    found = torch.autograd.profiler.record_function(message)
    found.__enter__()
    return found


class mstx:
    """Marks and ranges. ``domain`` tells ranges apart that are open at the same time. ``stream`` has no effect. A
    message that is no string raises TypeError."""

    @staticmethod
    def mark(message: str, stream: torch.Stream | None = None, domain: str = "default") -> None:
        """Marks a moment with the name ``message``."""
        _enter(message).__exit__(None, None, None)

    @staticmethod
    def range_push(message: str, stream: torch.Stream | None = None, domain: str = "default") -> int:
        """Begins a range that ``range_pop`` ends. Returns how many ranges of this thread were open before."""
        stack = _stack(domain)
        stack.append(_enter(message))
        return len(stack) - 1

    @staticmethod
    def range_pop(domain: str = "default") -> int:
        """Ends the last range of this thread. Returns how many remain open, or -1 if there was none."""
        stack = _stack(domain)
        if not stack:
            return -1
        stack.pop().__exit__(None, None, None)
        return len(stack)

    @staticmethod
    def range_start(message: str, stream: torch.Stream | None = None, domain: str = "default") -> int:
        """Begins a range. Returns the number that ends it."""
        number = next(_ids)
        _started[domain, number] = _enter(message)
        return number

    @staticmethod
    def range_end(range_id: int, domain: str = "default") -> None:
        """Ends a range of ``range_start``. An unknown number changes nothing."""
        found = _started.pop((domain, range_id), None)
        if found is not None:
            found.__exit__(None, None, None)

    @staticmethod
    @contextlib.contextmanager
    def mstx_range(message: str, stream: torch.Stream | None = None, domain: str = "default") -> Iterator[None]:
        """Context manager and decorator that puts a range around what is inside of it."""
        number = mstx.range_start(message, stream, domain)
        try:
            yield
        finally:
            mstx.range_end(number, domain)


class annotate:
    """Context manager and decorator that puts a range around what is inside of it. By default the range has the name of
    the decorated function."""

    def __init__(self, message: str = "", stream: torch.Stream | None = None, domain: str = "default"):
        self.message = message
        self.stream = stream
        self.domain = domain
        self._numbers: list[int] = []

    def __enter__(self) -> annotate:
        self._numbers.append(mstx.range_start(self.message, self.stream, self.domain))
        return self

    def __exit__(self, *exc: object) -> None:
        mstx.range_end(self._numbers.pop(), self.domain)

    def __call__(self, func: Callable) -> Callable:
        @functools.wraps(func)
        def call(*args, **kwargs):
            with annotate(self.message or func.__name__, self.stream, self.domain):
                return func(*args, **kwargs)

        return call
