# SPDX-License-Identifier: Apache-2.0
"""Programs whose control flow writes tensors from outside of its functions. Each is a function of ``x`` and ``s``,
vectors of as many elements. ``PROGRAMS`` has them by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.while_loop import while_loop

Tensor = torch.Tensor
Program = Callable[[Tensor, Tensor], Any]

PROGRAMS: dict[str, Program] = {}


def program(fn: Program) -> Program:
    PROGRAMS[fn.__name__] = fn
    return fn


def turns(body: Callable[[Tensor], Tensor], start: Tensor, count: int = 3, also: Callable[[], Any] = bool) -> Tensor:
    """Calls ``body`` ``count`` times on what it returned, and ``also`` before each call."""

    def goes_on(i: Tensor, _: Tensor) -> Tensor:
        also()
        return i < count

    return while_loop(goes_on, lambda i, t: (i + 1, body(t)), (torch.tensor(0), start))[1]


@program
def input_of_loop(x: Tensor, s: Tensor) -> Any:
    return turns(lambda t: t + s.mul_(2), x)


@program
def part_of_input(x: Tensor, s: Tensor) -> Any:
    return turns(lambda t: t + s[1:].mul_(2).sum(), x)


@program
def intermediate(x: Tensor, s: Tensor) -> Any:
    own = s + 1
    return turns(lambda t: t + own.mul_(2), x), own


@program
def view_of_input(x: Tensor, s: Tensor) -> Any:
    v = s[1:]
    return turns(lambda t: t + v.mul_(2).sum(), x), s + v.sum()


@program
def view_with_gaps(x: Tensor, s: Tensor) -> Any:
    v = s[::2]

    def body(t: Tensor) -> Tensor:
        v.reshape(-1).add_(1)
        return t + v.mul_(2).sum()

    return turns(body, x), s + 1


@program
def transposed_view(x: Tensor, s: Tensor) -> Any:
    v = s.view(-1, 2).t()

    def body(t: Tensor) -> Tensor:
        v.mul_(2)
        v[1:].add_(1)
        return t + v.sum()

    return turns(body, x)


@program
def condition_writes(x: Tensor, s: Tensor) -> Any:
    def goes_on(i: Tensor, t: Tensor) -> Tensor:
        return s.add_(1).sum() < 60

    return while_loop(goes_on, lambda i, t: (i + 1, t + s), (torch.tensor(0), x))


@program
def condition_on_number_writes(x: Tensor, s: Tensor) -> Any:
    def goes_on(i: int, t: Tensor) -> bool:
        s.add_(1)
        return i < 3

    return while_loop(goes_on, lambda i, t: (i + 2, t + s), (0, x))


@program
def condition_reads_view(x: Tensor, s: Tensor) -> Any:
    v = s[1:]
    return while_loop(lambda i, t: v.sum() < 90, lambda i, t: (i + 1, t + s.mul_(2)), (torch.tensor(0), x))


@program
def numbers_are_carried(x: Tensor, s: Tensor) -> Any:
    def body(i: int, t: Tensor) -> tuple[int, Tensor]:
        s[1:].add_(i)
        return i + 1, t + s

    return while_loop(lambda i, t: i < t.shape[0], body, (0, x))


@program
def first_value_is_written(x: Tensor, s: Tensor) -> Any:
    """The first turn sees in ``t`` what it writes into ``s``, the later ones do not."""

    def body(t: Tensor) -> Tensor:
        s.mul_(2)
        return t + s

    return turns(body, s)


@program
def part_of_first_value_is_written(x: Tensor, s: Tensor) -> Any:
    v = s[1:]

    def body(t: Tensor) -> Tensor:
        v.mul_(2)
        return t * 2 + v.sum()

    return turns(body, s), turns(body, s, count=0)


@program
def carried_value_is_written(x: Tensor, s: Tensor) -> Any:
    return turns(lambda t: t.add_(1) * 2, x), turns(lambda t: t.add_(1) * 2, s, also=lambda: x.sub_(1))


@program
def carried_value_is_captured(x: Tensor, s: Tensor) -> Any:
    return turns(lambda t: t + x, x)


@program
def two_tensors(x: Tensor, s: Tensor) -> Any:
    def body(t: Tensor) -> Tensor:
        x.add_(s.mul_(2))
        return t + x

    return turns(body, x + 1) + x


@program
def loop_in_loop(x: Tensor, s: Tensor) -> Any:
    return turns(lambda t: turns(lambda u: u + s.add_(1), t, 2), x)


@program
def branch_in_loop(x: Tensor, s: Tensor) -> Any:
    def body(i: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, torch.cond(i % 2 == 0, lambda t: t + s.add_(1), lambda t: t - s, (t,))

    return while_loop(lambda i, t: i < 3, body, (torch.tensor(0), x))


@program
def loop_in_branch(x: Tensor, s: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda t: turns(lambda u: u + s.add_(1), t), lambda t: t - s.mul_(2), (x,))


@program
def random_numbers(x: Tensor, s: Tensor) -> Any:
    def also() -> None:
        s.add_(torch.rand_like(s))

    return turns(lambda t: t + torch.rand_like(t), x, also=also), torch.rand_like(s)


@program
def branch_writes(x: Tensor, s: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda t: t + s.mul_(2), lambda t: t - s, (x,))


@program
def branches_write_operands(x: Tensor, s: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda t, u: t + u.mul_(2), lambda t, u: t.sub_(u) * 3, (x, s)) + x


@program
def branch_writes_intermediate(x: Tensor, s: Tensor) -> Any:
    own = s + 1
    return torch.cond(x.sum() > 0, lambda t: t + own.mul_(2), lambda t: t - own, (x,)), own


@program
def branches_write_views_of_one_tensor(x: Tensor, s: Tensor) -> Any:
    v = s[1:]

    def one(t: Tensor) -> Tensor:
        s.mul_(2)
        return t + v.sum()

    def other(t: Tensor) -> Tensor:
        v.mul_(3)
        return t + s

    return torch.cond(x.sum() > 0, one, other, (x,)), v + 1


@program
def branches_write_parts(x: Tensor, s: Tensor) -> Any:
    cache = torch.stack([s, s + 1])
    keys, values = cache[0], cache[1]

    def one(t: Tensor) -> Tensor:
        keys.mul_(2)
        return t + values.add_(keys)

    return torch.cond(x.sum() > 0, one, lambda t: t - keys, (x,)), cache


@program
def branches_return_what_they_write(x: Tensor, s: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda t: s.mul_(2), lambda t: t + s, (x,)) * 3


@program
def branches_return_arguments(x: Tensor, s: Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda t: s, lambda t: t, (x,)) * 2


@program
def branches_read_views_of_one_tensor(x: Tensor, s: Tensor) -> Any:
    v = s[1:]
    return torch.cond(x.sum() > 0, lambda t: t + v.sum(), lambda t: t + s, (x,))


# A few of each kind, for tests that have little time.
SOME = (
    "part_of_input",
    "view_with_gaps",
    "condition_writes",
    "first_value_is_written",
    "branch_in_loop",
    "branch_writes_intermediate",
    "branches_write_views_of_one_tensor",
    "branches_return_arguments",
)
