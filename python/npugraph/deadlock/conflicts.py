# SPDX-License-Identifier: Apache-2.0
"""Sets of tasks that nothing orders and that ask for more than there is, of any size."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence

MOST = 100  # sets that are listed
_STEPS = 200_000


def conflicts(weights: Sequence[int], is_ordered: Callable[[int, int], bool], total: int) -> list[tuple[int, ...]]:
    """All sets of unordered items that weigh more than ``total`` and of which none can be left out, the smallest first,
    at most ``MOST``. Where there is one it is found, and where none is, none is given."""
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
    """By number of items, so that no set has a smaller one in it; gives up after many steps."""
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
    """The items of most weight of which no two are ordered.

    By Dilworth's theorem for weights they weigh as much as the least cover by chains, which is the sum of all weights
    less the largest flow from items to items behind them. Items are taken as they are numbered: ``is_ordered(i, j)``
    with i < j means that i comes first.
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
    """Each vertex that has room from ``source``, and the one before it."""
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
