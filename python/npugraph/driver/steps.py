# SPDX-License-Identifier: Apache-2.0
"""The words of the compile driver: steps, and targets that have them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from npugraph.driver.entry import Work


@dataclasses.dataclass(frozen=True)
class Step:
    """One step. ``run`` changes a ``Work`` in place. ``why_here`` gives the reason for its place in the order."""

    name: str
    run: Callable[[Work], None]
    why_here: str


@dataclasses.dataclass(frozen=True)
class Target:
    """A form that graphs are compiled to. ``steps`` end with ``Work.imported``, from which ``compile`` makes
    ``Work.core``. ``function`` makes the compiled function. Graphs that control flow of the graph runs go through
    ``nested_steps`` before they are imported with it. ``computes`` says whether the target computes an operator of the
    user without a kernel of it."""

    name: str
    steps: tuple[Step, ...]
    nested_steps: tuple[Step, ...]
    compile: Callable[[Work], None]
    function: Callable[[Work], Callable[..., Any]]
    computes: Callable[[Any], bool] = lambda operator: False
