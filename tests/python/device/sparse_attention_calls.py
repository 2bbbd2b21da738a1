# SPDX-License-Identifier: Apache-2.0
"""Two sequences in the layouts of attention to chosen keys, for tests of this attention and of the operators that
choose the keys."""

from __future__ import annotations

from typing import Any

import torch

from tests.python.device.attention_reference import by_heads, from_heads, starts_and_ends
from tests.python.device.npu_operators import normal

HEADS, SIZE, SCALE = 4, 8, 0.3
QUERIES, KEYS = [2, 5], [4, 7]  # rows of each sequence
TABLE = torch.tensor([[3, 0, 4], [1, 5, 2]], dtype=torch.int32)
LAYOUTS = [("BSND", "BSND"), ("TND", "TND"), ("TND", "PA_BSND"), ("BSND", "PA_BSND")]


def slow(checked: bool) -> dict[str, bool]:
    """Turns the slowest parts of ``check`` on or off. It is enough to run them for one case of an operator."""
    return {"compiled": checked, "dynamic": checked}


def arranged(parts: list[torch.Tensor], layout: str) -> torch.Tensor:
    """Arranges the parts [1, heads, length, size] of each sequence in a layout."""
    if layout == "TND":
        return from_heads(torch.cat(parts, 2), "TND").contiguous()
    if layout == "BSND":
        longest = max(x.shape[2] for x in parts)
        padded = [torch.nn.functional.pad(x, (0, 0, 0, longest - x.shape[2])) for x in parts]
        return torch.cat(padded).transpose(1, 2).contiguous()
    pages = parts[0].new_zeros(6, 3, parts[0].shape[1], parts[0].shape[3])
    for sequence, rows in enumerate(parts):
        for row in range(rows.shape[2]):
            pages[TABLE[sequence, row // 3], row % 3] = rows[0, :, row]
    return pages


def lengths(layout: str, of: list[int]) -> torch.Tensor:
    return torch.tensor(of, dtype=torch.int32).cumsum(0) if layout == "TND" else torch.tensor(of, dtype=torch.int32)


def parts_of(heads: int, of: list[int], seed: int, size: int = SIZE) -> list[torch.Tensor]:
    return [normal(1, heads, n, size, seed=seed + n) for n in of]


def of_sequences(x: torch.Tensor, layout: str, of: list[int]) -> list[torch.Tensor]:
    """Inverts ``arranged`` for layouts without pages."""
    if layout == "TND":
        ends = torch.tensor(of).cumsum(0).tolist()
        return [by_heads(x[a:b], "TND", 0) for a, b in starts_and_ends(ends)]
    return [x[i : i + 1, :n].transpose(1, 2) for i, n in enumerate(of)]


def settings(query: str, key: str, names: tuple[str, str], **extra: Any) -> dict[str, Any]:
    given = {"actual_seq_lengths_query": lengths(query, QUERIES), names[1]: lengths(key, KEYS)}
    given |= {"layout_query": query, names[0]: key}
    return given | ({"block_table": TABLE} if key == "PA_BSND" else {}) | extra
