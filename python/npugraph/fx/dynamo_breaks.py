# SPDX-License-Identifier: Apache-2.0
"""Where Dynamo could not trace, so that a graph ends there and the place runs in eager mode, and why."""

from __future__ import annotations

from torch._dynamo.output_graph import GraphCompileReason
from torch._dynamo.utils import counters, graph_break_reasons

from npugraph.fx.source_lines import is_users


def described(reason: GraphCompileReason) -> str:
    """`` at model.py:12 in forward: `` and why."""
    own = [frame for frame in reason.user_stack if is_users(frame.filename)] or reason.user_stack
    where = f" at {own[-1].filename}:{own[-1].lineno} in {own[-1].name}" if own else ""
    return f"{where}: {_explained(reason.reason)}"


def last() -> str:
    """Why, where Dynamo last could not trace; it does not keep the line of all such places."""
    return _explained((list(counters["unimplemented"]) or ["Dynamo says no more"])[-1])


def all_described() -> list[str]:
    """Of each reason that Dynamo met in this process: what it is, after the line, where that is known."""
    placed = {reason.reason.strip(): described(reason).strip() for reason in graph_break_reasons if reason.graph_break}
    met = [text for kind in ("graph_break", "unimplemented") for text in counters[kind]]
    return [*placed.values(), *(_explained(text) for text in dict.fromkeys(met) if text.strip() not in placed)]


def _explained(text: str) -> str:
    """What Dynamo calls it, and the sentence that explains it."""
    lines = [line.strip().removeprefix("Explanation: ") for line in text.strip().splitlines()]
    return ": ".join(line.rstrip(".") for line in lines[:2])
