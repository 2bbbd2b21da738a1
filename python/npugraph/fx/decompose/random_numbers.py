# SPDX-License-Identifier: Apache-2.0
"""Random numbers of a written tensor in the order of eager.

``x.bernoulli_(p)`` draws a number for each element in the order of the elements in memory, ``bernoulli(x, p)`` in the
order of rows. AOTAutograd makes the second of the first, and its result has the strides of ``x``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from npugraph.fx.decompose.parts import Parts
from npugraph.fx.values import memory_order

OPERATOR = torch.ops.aten.bernoulli.p


def parts_of(node: fx.Node) -> Parts | None:
    """Returns ``drawn_in_order`` for a node whose result does not lie in rows."""
    order = memory_order(node.meta["val"])
    return None if order is None or order == sorted(order) else functools.partial(drawn_in_order, order)


def drawn_in_order(order: Sequence[int], x: torch.Tensor, p: float, **generator: Any) -> torch.Tensor:
    """Returns zeros and ones in the sizes of ``x``, drawn with dimension ``order[0]`` outermost."""
    drawn = OPERATOR(x.permute(order), p, **generator)
    return drawn.permute([order.index(dim) for dim in range(x.dim())])
