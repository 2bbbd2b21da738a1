# SPDX-License-Identifier: Apache-2.0
"""Blocks of values that share a power of two as their scale, computed one block at a time: a reference for tests (OCP
Microscaling Formats specification, v1.0)."""

from __future__ import annotations

import math

import torch

FLOAT4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
TYPES = {torch.float8_e4m3fn: (8, 448), torch.float8_e5m2: (15, 57344), 296: (2, 6)}


def to_float4(x):
    """Returns the codes of float4_e2m1 that are nearest to the values. A tie goes to the even code."""
    distance = (x.abs().clamp(max=6)[..., None] - FLOAT4).abs()
    nearest = distance == distance.amin(-1, keepdim=True)
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
    code = order[nearest[..., order].int().argmax(-1)]
    return (code + 8 * torch.signbit(x)).to(torch.uint8)


def of_float4(byte):
    codes = torch.stack([byte & 15, byte >> 4], -1).flatten(-2).long()
    return torch.where(codes >= 8, -1.0, 1.0) * FLOAT4[codes & 7]


def shared_exponent(most, dst_type=296, rounds_up=False):
    """Returns the exponent of the scale of a block whose largest absolute value is ``most``."""
    top, largest = TYPES[dst_type]
    if most == 0:
        return -127
    return max(math.ceil(math.log2(most / largest)) if rounds_up else math.floor(math.log2(most)) - top, -127)


def elements(values, dst_type=296):
    """Returns the values as bytes, two of float4 to a byte."""
    if dst_type == 296:
        codes = to_float4(values)
        return codes[..., ::2] + 16 * codes[..., 1::2]
    largest = TYPES[dst_type][1]
    return values.clamp(-largest, largest).float().to(dst_type).view(torch.uint8)


def blocks(x, axis=-1, dst_type=296, rounds_up=False):
    """Returns values and scales of blocks along ``axis``, computed one block at a time."""
    x = x.movedim(axis, -1)
    rows = x.reshape(-1, x.shape[-1])
    pairs = math.ceil(x.shape[-1] / 64)
    scales, values = torch.zeros(len(rows), pairs * 2, dtype=torch.uint8), rows.clone()
    for i, row in enumerate(rows):
        for j in range(0, len(row), 32):
            shared = shared_exponent(row[j : j + 32].abs().max().item(), dst_type, rounds_up)
            scales[i, j // 32] = shared + 127
            values[i, j : j + 32] = row[j : j + 32] / 2.0**shared
    scales = scales.view(*x.shape[:-1], pairs, 2).movedim(-2, axis if axis >= 0 else axis - 1)
    return elements(values.view(x.shape).movedim(-1, axis), dst_type), scales


def as_bytes(results):
    return tuple(x.view(torch.uint8) for x in results)
