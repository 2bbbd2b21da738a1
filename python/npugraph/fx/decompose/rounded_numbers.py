# SPDX-License-Identifier: Apache-2.0
"""Numbers that eager rounds to the type of the tensor -> rounded numbers.

    softshrink(x, 0.7), where x is bf16    ->    softshrink(x, 0.69921875)

Formulas of the compiler take the numbers of these operators as they are (``Numbers::kUnrounded``), as torch 2.13 does.
"""

from __future__ import annotations

import torch
from torch import fx

from npugraph import torch_versions

# The place of the number, by operator. torch rounds it since version 2.14, builds of its sources included.
_ROUNDED = {torch.ops.aten.softshrink.default: 1} if torch_versions.numbers(torch.__version__) >= (2, 14) else {}


def round_numbers(graph: fx.Graph) -> None:
    for op, place in _ROUNDED.items():
        for node in graph.find_nodes(op="call_function", target=op):
            if len(node.args) > place and isinstance(node.args[place], (int, float)):
                dtype = node.args[0].meta["val"].dtype
                node.update_arg(place, torch.tensor(node.args[place], dtype=dtype).item())
