# SPDX-License-Identifier: Apache-2.0
"""Describes graph breaks: the user's line at which Dynamo stopped tracing, and the reason.

The graph ends at that line, and the line runs in eager mode.
"""

from __future__ import annotations

from torch._dynamo.output_graph import GraphCompileReason
from torch._dynamo.utils import counters, graph_break_reasons

from npugraph.fx.source_lines import is_users


def described(reason: GraphCompileReason) -> str:
    """Describes a graph break as `` at model.py:12 in forward: reason``."""
    own = [frame for frame in reason.user_stack if is_users(frame.filename)] or reason.user_stack
    where = f" at {own[-1].filename}:{own[-1].lineno} in {own[-1].name}" if own else ""
    return f"{where}: {_explained(reason.reason)}"


def last() -> str:
    """The newest reason that Dynamo has counted, without a line: Dynamo does not keep the line of every break."""
    return _explained((list(counters["unimplemented"]) or ["Dynamo says no more"])[-1])


def all_described() -> list[str]:
    """Describes each reason for a graph break in this process, after its line if Dynamo kept that."""
    placed = {reason.reason.strip(): described(reason).strip() for reason in graph_break_reasons if reason.graph_break}
    met = [text for kind in ("graph_break", "unimplemented") for text in counters[kind]]
    return [*placed.values(), *(_explained(text) for text in dict.fromkeys(met) if text.strip() not in placed)]


def _explained(text: str) -> str:
    """The first two lines of ``text``: Dynamo's name of the reason and the sentence that explains it."""
    lines = [line.strip().removeprefix("Explanation: ") for line in text.strip().splitlines()]
    return ": ".join(line.rstrip(".") for line in lines[:2])
