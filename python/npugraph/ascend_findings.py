# SPDX-License-Identifier: Apache-2.0
"""What works here and not on Ascend, as it is found while graphs are compiled: collected for ``python -m npugraph
ascend-check``, or an error with ``NPUGRAPH_STRICT=ascend``. Nobody looks for it otherwise."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from torch._dynamo.exc import ShortenTraceback

from npugraph.fx.source_lines import is_users


class Finding(NamedTuple):
    """``place`` is a line of the program, as ``file.py:12 in forward``, or what else is known of it."""

    place: str
    text: str


class NotOnAscend(ShortenTraceback):
    """A ``RuntimeError`` with all findings of a place of the compile. torch.compile hands it to the user as it is."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        lines = [f"{finding.place}: {finding.text}" for finding in findings]
        super().__init__("\n  ".join(["this does not work on Ascend:", *lines]), first_useful_frame=None)
        self.findings = tuple(findings)


@dataclasses.dataclass
class Check:
    """All findings of a program, in their order, and the number of graphs of GE mode that were looked at."""

    findings: dict[Finding, None] = dataclasses.field(default_factory=dict)
    graphs: int = 0


_check: Check | None = None


@contextlib.contextmanager
def collecting() -> Iterator[Check]:
    """Collects the findings of all threads in place of raising them."""
    global _check
    before, _check = _check, Check()
    try:
        yield _check
    finally:
        _check = before


def are_wanted() -> bool:
    return _check is not None or os.environ.get("NPUGRAPH_STRICT") == "ascend"


def count_graph() -> None:
    if _check is not None:
        _check.graphs += 1


def add(findings: Sequence[Finding]) -> None:
    """Collects findings. Raises ``NotOnAscend`` if nobody collects them and there are any. Only while they are
    wanted."""
    if _check is not None:
        _check.findings |= dict.fromkeys(findings)
    elif findings:
        raise NotOnAscend(findings)


def place_of_caller() -> str:
    """The innermost line on the stack of this thread that is none of npugraph and torch."""
    frame = sys._getframe()
    while frame.f_back is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"
