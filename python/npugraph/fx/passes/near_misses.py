# SPDX-License-Identifier: Apache-2.0
"""Finds places where a replacement rule nearly matched: all its operators are there and read each other as in the
pattern, but some condition does not hold."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator, Sequence
from typing import Any

from torch import fx
from torch._inductor import pattern_matcher
from torch._inductor.pattern_matcher import Match, MultiOutputPattern, PatternExpr, _TargetArgsExpr

from npugraph.fx.passes.replacements import Rule
from npugraph.fx.source_lines import source_line


@dataclasses.dataclass(frozen=True)
class NearMiss:
    """A place where ``rule`` did not match because of ``reason``. ``node`` is the last of its operators there, and
    ``source`` is the user's line."""

    rule: str
    node: str
    reason: str
    source: str


def near_misses(gm: fx.GraphModule, rules: Sequence[Rule]) -> list[NearMiss]:
    """The near misses of a graph to which the rules have been applied. If several forms of a rule miss at a node, only
    the closest one is returned."""
    closest: dict[tuple[str, fx.Node], tuple[int, NearMiss]] = {}
    for rule in rules:
        outputs = _outputs(rule.pattern)
        for node in gm.graph.nodes:
            if node.op == "call_function" and node.target in outputs[0].fns and _has_shape(outputs[0], node):
                distance, reason = _reason(rule, outputs, node)
                miss = NearMiss(rule.name, node.name, reason, source_line(node))
                key = (rule.family, node)
                if key not in closest or distance < closest[key][0]:
                    closest[key] = distance, miss
    return [miss for _, miss in closest.values()]


def _outputs(pattern: PatternExpr) -> list[Any]:
    return [out for out in pattern.outputs if out] if isinstance(pattern, MultiOutputPattern) else [pattern]


def _has_shape(pattern: Any, node: Any) -> bool:
    """Whether the operators of ``pattern`` stand at ``node``, with any other arguments."""
    if not isinstance(pattern, _TargetArgsExpr):
        return True
    if not isinstance(node, fx.Node) or node.target not in pattern.fns:
        return False
    if node.target is operator.getitem and node.args[1] != pattern.args[1]:
        return False
    pairs = zip(pattern.args, node.args, strict=False)
    return all(_has_shape(part, arg) for part, arg in pairs if isinstance(part, PatternExpr))


def _reason(rule: Rule, outputs: list[Any], node: fx.Node) -> tuple[int, str]:
    """The distance of a place from a match, smaller is closer, and the reason why it does not match."""
    match = rule.pattern.match(node)
    if not isinstance(match, Match):
        differences = list(_differences(outputs, outputs[0], node))
        if differences:
            return 1 + len(differences), differences[0]
        return 1, _missing_output(outputs, node) if len(outputs) > 1 else str(match)
    for condition in rule.conditions:
        try:
            refusal = condition.refusal(match)
        except Exception as error:  # a user's check met nodes that it did not expect
            refusal = f"{condition.text}: {type(error).__name__}: {error}"
        if refusal is not None:
            return 0, f"does not hold: {refusal}"
    return 0, "with the sizes and numbers of this graph the pattern is another one"


def _differences(outputs: list[Any], pattern: Any, node: Any) -> Iterator[str]:
    """Describes what keeps the operators at ``node`` from matching."""
    if not isinstance(pattern, _TargetArgsExpr):
        return
    users, wanted = len(node.users), pattern.users
    if pattern not in outputs and isinstance(wanted, int) and users != wanted:
        yield f"{node.name} has {_readers(users)}, and the pattern {wanted}"
    if len(node.args) != len(pattern.args):
        yield f"{node.name} is given {len(node.args)} positional arguments, and in the pattern {len(pattern.args)}"
    for name in pattern.kwargs:
        if name not in node.kwargs:
            yield f"{node.name} is not given {name}"
    named = [(pattern.kwargs[name], node.kwargs[name]) for name in pattern.kwargs if name in node.kwargs]
    for part, given in [*zip(pattern.args, node.args, strict=False), *named]:
        if isinstance(part, PatternExpr):
            yield from _differences(outputs, part, given)
        elif given != part and not isinstance(part, (list, tuple)):
            yield f"{node.name} is given {given!r}, and in the pattern {part!r}"


def _readers(count: int) -> str:
    return f"{count} reader{'s' * (count != 1)}"


def _missing_output(outputs: list[Any], node: fx.Node) -> str:
    names = ", ".join(_describe(out) for out in outputs[1:])
    return f"beside {node.name} there is not all that the pattern has: {names}"


def _describe(pattern: Any) -> str:
    if isinstance(pattern, _TargetArgsExpr) and pattern.fns[0] is operator.getitem:
        return f"result {pattern.args[1]} of {_describe(pattern.args[0])}"
    return pattern.fns_repr() if isinstance(pattern, pattern_matcher._TargetExpr) else str(pattern)
