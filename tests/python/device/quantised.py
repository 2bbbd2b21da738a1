# SPDX-License-Identifier: Apache-2.0
"""Quantised values by their definition: a reference for tests."""

from __future__ import annotations

import torch

INT4 = 285


def saturated(x, low=-128, high=127, dtype=torch.int8):
    return torch.round(x).clamp(low, high).to(dtype)


def packed(x):
    """Packs values of int4 into words of int32, with Python's integers."""
    rows = x.reshape(-1, 8).tolist()
    words = [sum((int(v) & 15) << (4 * i) for i, v in enumerate(row)) for row in rows]
    signed = [w - (1 << 32) if w >= 1 << 31 else w for w in words]
    return torch.tensor(signed, dtype=torch.int32).view(*x.shape[:-1], x.shape[-1] // 8)


def unpacked(words):
    nibbles = [[(w >> (4 * i)) & 15 for i in range(8)] for w in words.flatten().tolist()]
    values = [v - 16 if v > 7 else v for row in nibbles for v in row]
    return torch.tensor(values).view(*words.shape[:-1], words.shape[-1] * 8)
