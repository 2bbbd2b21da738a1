# SPDX-License-Identifier: Apache-2.0
"""Arranges conditions by the paths to the values that they look at, so that a step of many paths is taken once."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch._C._dynamo.guards import dict_version

from npugraph.fx.dynamo import restricted
from npugraph.inference.conditions import Condition, predicate
from npugraph.inference.steps import Step, steps_of, value_of
from npugraph.python_versions import DICTS_TELL_OF_CHANGES

# The errors of following a path that leads nowhere.
WRONG = (AttributeError, KeyError, IndexError, TypeError, ValueError, ArithmeticError, RuntimeError)


class _Node:
    def __init__(self) -> None:
        self.children: dict[Step, _Node] = {}
        self.predicates: list[Callable[[Any], bool]] = []


class Tree:
    """Tests all ``conditions`` at once."""

    def __init__(self, conditions: Iterable[Condition]) -> None:
        self.roots: dict[Step, _Node] = {}
        self.pairs: list[tuple[str, str]] = []  # sources that must lead to the same object
        self.others: list[tuple[str, Callable[[Any], bool]]] = []
        expressions = []
        for condition in conditions:
            if condition.kind == "holds":
                expressions.append(f"({condition.source})")
            elif condition.kind == "same":
                self.pairs.append((condition.source, condition.detail))
            else:
                self._add(condition)
        self.expression = " and ".join(expressions)
        if self.expression:
            restricted.expression(self.expression)

    def _add(self, condition: Condition) -> None:
        test = predicate(condition)
        steps = steps_of(condition.source)
        if steps is None:
            restricted.expression(condition.source)
            self.others.append((condition.source, test))
            return
        node = self.roots.setdefault(steps[0], _Node())
        for step in steps[1:]:
            child = node.children.get(step)
            if child is None:
                child = node.children[step] = _Node()
            node = child
        node.predicates.append(test)

    def holds(self, arguments: Mapping[str, Any], variables: Mapping[str, Any], seen: Seen | None = None) -> bool:
        """Whether all conditions hold. ``seen`` records the objects that the test looked through."""
        roots = {(True, "L"): arguments, (True, "G"): variables}
        try:
            return (
                all(_test(node, roots[step], seen) for step, node in self.roots.items())
                and all(value_of(a, arguments, variables) is value_of(b, arguments, variables) for a, b in self.pairs)
                and all(test(restricted.evaluate(text, arguments, variables)) for text, test in self.others)
                and (not self.expression or bool(restricted.evaluate(self.expression, arguments, variables)))
            )
        except WRONG:
            return False


def _test(node: _Node, value: Any, seen: Seen | None) -> bool:
    for test in node.predicates:
        if not test(value):
            return False
    if seen is not None:
        seen.add(value, is_leaf=not node.children)
    for step, child in node.children.items():
        if not _test(child, getattr(value, step[1]) if step[0] else value[step[1]], seen):
            return False
    return True


class Seen:
    """The objects that a test looked through. They show whether the test would have the same result again."""

    def __init__(self) -> None:
        self._dicts: dict[int, dict[Any, Any]] = {}
        self._lists: dict[int, tuple[Any, list[int]]] = {}
        self._classes: dict[int, tuple[Any, type]] = {}
        self._complete = DICTS_TELL_OF_CHANGES
        self._versions: list[int] = []

    def add(self, value: Any, is_leaf: bool) -> None:
        if isinstance(value, dict):
            self._dicts[id(value)] = value
        elif isinstance(value, (list, tuple)):
            self._lists[id(value)] = value, list(map(id, value))
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            self._dicts[id(attributes)] = attributes
            self._classes[id(value)] = value, type(value)
        elif not is_leaf and not isinstance(value, _WITHOUT_STATE):
            self._complete = False
        if isinstance(value, (set, collections.deque)):
            self._complete = False

    def finish(self) -> None:
        try:
            self._versions = [dict_version(kept) for kept in self._dicts.values()]
        except RuntimeError:  # this version of Python does not count changes of dicts
            self._complete = False

    def is_unchanged(self) -> bool:
        return (
            self._complete
            and list(map(dict_version, self._dicts.values())) == self._versions
            and all(type(value) is kind for value, kind in self._classes.values())
            and all(list(map(id, kept)) == ids for kept, ids in self._lists.values())
        )


_WITHOUT_STATE = (
    *(tuple, list, dict, set, type),
    *(types.FunctionType, types.BuiltinFunctionType, types.CodeType, types.MethodType, types.CellType),
    types.MappingProxyType,
)
