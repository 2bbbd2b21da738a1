# SPDX-License-Identifier: Apache-2.0
"""Operators that return their input, by torch's own table -> their input.

    y = slice(x, 0, 0, 9223372036854775807); z = sin(y)    ->    z = sin(x)

The table has slices of everything, repeats by 1, empty paddings, conversions to the same type or device, rounding of
integers, powers of 1, concatenations of one tensor, views of the same shape, clones and aliases. An operator stays if a
result would otherwise share memory with an input or another result.
"""

from __future__ import annotations

from torch import fx
from torch._inductor.fx_passes.post_grad import remove_noop_ops as remove_by_table


def remove_noop_ops(graph: fx.Graph) -> None:
    """Removes no-ops in place. Nodes need their fake tensors in ``meta["val"]``."""
    remove_by_table(graph)
    graph.eliminate_dead_code()
