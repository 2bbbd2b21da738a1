# SPDX-License-Identifier: Apache-2.0
"""Sets of tasks, of any size, that nothing orders and that together need more than there is."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence

MOST = 100  # sets that are listed
_STEPS = 200_000


def conflicts(weights: Sequence[int], is_ordered: Callable[[int, int], bool], total: int) -> list[tuple[int, ...]]:
    """Sets of unordered items that weigh more than ``total`` only with all of their items, the smallest sets first, at
    most ``MOST``. A search that takes too many steps leaves some out. If there is such a set, at least one is found."""
    heaviest = heaviest_unordered(weights, is_ordered)
    if sum(weights[i] for i in heaviest) <= total:
        return []
    found = _search(weights, is_ordered, total)
    return found or [_without_surplus(heaviest, weights, total)]


def _without_surplus(items: Sequence[int], weights: Sequence[int], total: int) -> tuple[int, ...]:
    kept = sorted(items, key=lambda i: weights[i])
    for i in list(kept):
        if sum(weights[j] for j in kept) - weights[i] > total:
            kept.remove(i)
    return tuple(sorted(kept))


def _search(weights: Sequence[int], is_ordered: Callable[[int, int], bool], total: int) -> list[tuple[int, ...]]:
    """Searches by number of items, so that no set contains a smaller one. Gives up after ``_STEPS`` steps."""
    found: list[tuple[int, ...]] = [(i,) for i in range(len(weights)) if weights[i] > total]
    level = [(i,) for i in range(len(weights)) if 0 < weights[i] <= total]
    steps = 0
    while level and len(found) < MOST:
        longer = []
        for items in level:
            weight = sum(weights[i] for i in items)
            for i in range(items[-1] + 1, len(weights)):
                steps += 1
                if not 0 < weights[i] <= total or any(is_ordered(j, i) for j in items):
                    continue
                if weight + weights[i] <= total:
                    longer.append((*items, i))
                elif weight + weights[i] - min(weights[i], *(weights[j] for j in items)) <= total:
                    found.append((*items, i))
            if steps > _STEPS:
                return found[:MOST]
        level = longer
    return found[:MOST]


def heaviest_unordered(weights: Sequence[int], is_ordered: Callable[[int, int], bool]) -> list[int]:
    """The heaviest set of items of which no two are ordered.

    By Dilworth's theorem for weights, the set weighs as much as the smallest cover by chains. That is the sum of all
    weights minus the largest flow from items to items behind them. Items are ordered as they are numbered:
    ``is_ordered(i, j)`` with i < j means that i comes first.
    """
    n = len(weights)
    source, sink = 2 * n, 2 * n + 1
    room: list[dict[int, float]] = [{} for _ in range(2 * n + 2)]
    for i, weight in enumerate(weights):
        room[source][i], room[n + i][sink] = weight, weight
    for i in range(n):
        for j in range(i + 1, n):
            if is_ordered(i, j):
                room[i][n + j] = float("inf")
    while (path := _path(room, source, sink)) is not None:
        steps = list(itertools.pairwise(path))
        flow = min(room[a][b] for a, b in steps)
        for a, b in steps:
            room[a][b] -= flow
            room[b][a] = room[b].get(a, 0) + flow
    reached = _reached(room, source)
    return [i for i in range(n) if weights[i] > 0 and i in reached and n + i not in reached]


def _reached(room: list[dict[int, float]], source: int) -> dict[int, int]:
    """Each vertex that can be reached from ``source`` with room left, and the vertex before it."""
    came = {source: source}
    waiting = deque([source])
    while waiting:
        a = waiting.popleft()
        for b, left in room[a].items():
            if left > 0 and b not in came:
                came[b] = a
                waiting.append(b)
    return came


def _path(room: list[dict[int, float]], source: int, sink: int) -> list[int] | None:
    came = _reached(room, source)
    if sink not in came:
        return None
    path = [sink]
    while path[-1] != source:
        path.append(came[path[-1]])
    return path[::-1]
