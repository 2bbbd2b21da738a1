# SPDX-License-Identifier: Apache-2.0
"""Conditions of replacement rules on a match, each with a text that describes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from torch import fx
from torch._inductor.pattern_matcher import Match, _TargetArgsExpr


@dataclasses.dataclass(frozen=True)
class Condition:
    """A check for ``register_replacement``. ``holds`` judges a match with the sizes of the graph. ``text`` says what
    the check requires, and ``details`` says what was found instead. Both are for people."""

    text: str
    holds: Callable[[Match], bool]
    details: Callable[[Match], str] | None = None

    def __call__(self, match: Match) -> bool:
        return self.holds(match)

    def refusal(self, match: Match) -> str | None:
        """None if the condition holds, else what it requires and what was found."""
        if self.holds(match):
            return None
        found = self.details(match) if self.details else ""
        return f"{self.text}: {found}" if found else self.text


def _calls(match: Match) -> list[tuple[_TargetArgsExpr, fx.Node]]:
    found = match.ctx.pattern_to_node.items()
    return [(p, n) for p, n in found if isinstance(p, _TargetArgsExpr) and isinstance(n, fx.Node)]


def _other_arguments(match: Match) -> list[str]:
    """Keyword arguments of the matched calls that the pattern does not have. The matcher itself accepts such calls, and
    the replacement would lose the arguments."""
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
    """The section of a node, or its stream in a graph without sections. None for the stream on which the graph was
    called."""
    return node.meta.get("section") or (node.meta.get("custom") or {}).get("stream")


same_stream = Condition(
    "all operators are on one stream",
    lambda match: len({stream_of(node) for node in match.nodes}) <= 1,
)
