# SPDX-License-Identifier: Apache-2.0
"""Chooses among tests for runs that take less time than all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def each_value(combinations: Sequence[Sequence[str]]) -> set[tuple[str, ...]]:
    """Returns as few combinations of parameters as have each value of each parameter."""
    values = [list(dict.fromkeys(of_parameter)) for of_parameter in zip(*combinations, strict=True)]
    return {tuple(of_one[row % len(of_one)] for of_one in values) for row in range(max(map(len, values)))}


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
