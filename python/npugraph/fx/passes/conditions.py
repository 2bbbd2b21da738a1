# SPDX-License-Identifier: Apache-2.0
"""What replacement rules ask of a match, each with the words that say so."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from torch import fx
from torch._inductor.pattern_matcher import Match, _TargetArgsExpr


@dataclasses.dataclass(frozen=True)
class Condition:
    """A check of ``register_replacement``. ``holds`` is asked about a match with the sizes of the graph; ``text`` says
    what it asks, and ``details`` what was found instead, both for people."""

    text: str
    holds: Callable[[Match], bool]
    details: Callable[[Match], str] | None = None

    def __call__(self, match: Match) -> bool:
        return self.holds(match)

    def refusal(self, match: Match) -> str | None:
        """None where the condition holds, else what it asks and what it found."""
        if self.holds(match):
            return None
        found = self.details(match) if self.details else ""
        return f"{self.text}: {found}" if found else self.text


def _calls(match: Match) -> list[tuple[_TargetArgsExpr, fx.Node]]:
    found = match.ctx.pattern_to_node.items()
    return [(p, n) for p, n in found if isinstance(p, _TargetArgsExpr) and isinstance(n, fx.Node)]


def _other_arguments(match: Match) -> list[str]:
    """The matcher itself takes calls that have more keyword arguments than the pattern, and would lose these."""
    return [
        f"{node.name} has {name}={node.kwargs[name]!r}"
        for pattern, node in _calls(match)
        for name in node.kwargs
        if name not in pattern.kwargs
    ]


same_arguments = Condition(
    "calls have only the keyword arguments of the pattern",
    lambda match: not _other_arguments(match),
    lambda match: ", ".join(_other_arguments(match)),
)


def stream_of(node: fx.Node) -> object:
    """The stretch of a stream in which a node runs, None for the stream on which the graph was called."""
    return node.meta.get("section") or (node.meta.get("custom") or {}).get("stream")


same_stream = Condition(
    "all operators are on one stream",
    lambda match: len({stream_of(node) for node in match.nodes}) <= 1,
)
