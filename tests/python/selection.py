# SPDX-License-Identifier: Apache-2.0
"""Chooses among tests for runs that take less time than all of them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any


def each_value(combinations: Sequence[Sequence[str]]) -> set[tuple[str, ...]]:
    """Returns as few of these combinations of parameters as have each value of each parameter. Of those that do, it
    takes such that most pairs of values meet."""
    values = {row: set(enumerate(row)) for row in map(tuple, combinations)}
    pairs = {row: set(itertools.combinations(enumerate(row), 2)) for row in values}
    kept = set()
    new_values, new_pairs = set[Any]().union(*values.values()), set[Any]().union(*pairs.values())
    while new_values:
        best = max(values, key=lambda row: (len(values[row] & new_values), len(pairs[row] & new_pairs)))
        kept.add(best)
        new_values -= values[best]
        new_pairs -= pairs[best]
    return kept


def cheapest(tests: Mapping[str, int], seconds: Mapping[str, float], limit: float) -> set[str]:
    """Returns the files with most tests for their time, which take ``limit`` seconds together, and those that have
    never been measured. ``tests`` are the numbers of tests of the files."""
    kept = tests.keys() - seconds.keys()
    for file in sorted(tests.keys() & seconds.keys(), key=lambda file: seconds[file] / tests[file]):
        limit -= seconds[file]
        if limit < 0:
            break
        kept.add(file)
    return kept
