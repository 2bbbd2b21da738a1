# SPDX-License-Identifier: Apache-2.0
"""The formats of blocks in GGUF files, and how to decode the numbers in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Format:
    """A block has ``elements`` numbers in ``bytes`` bytes. ``decode`` turns uint8 [n, bytes] into f32 [n, elements]."""

    elements: int
    bytes: int
    decode: Callable[[torch.Tensor], torch.Tensor]


def _half(blocks: torch.Tensor, at: int) -> torch.Tensor:
    return blocks[:, at : at + 2].contiguous().view(torch.float16).float()


def _nibbles(codes: torch.Tensor) -> torch.Tensor:
    """Returns the low halves of the bytes, followed by the high halves."""
    return torch.cat([codes & 15, codes >> 4], dim=-1)


def _q4_0(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]).float() - 8)


def _q4_1(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks, 0) * _nibbles(blocks[:, 4:]).float() + _half(blocks, 2)


def _fifth_bits(words: torch.Tensor) -> torch.Tensor:
    """Returns 16 for each bit of the bytes [n, 4] that is set, the lowest bit first, and 0 for the others."""
    return (words[:, :, None] >> torch.arange(8, dtype=torch.uint8) & 1).reshape(-1, 32) << 4


def _q5_0(blocks: torch.Tensor) -> torch.Tensor:
    codes = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    return _half(blocks, 0) * (codes.float() - 16)


def _q5_1(blocks: torch.Tensor) -> torch.Tensor:
    codes = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return _half(blocks, 0) * codes.float() + _half(blocks, 2)


def _q8_0(blocks: torch.Tensor) -> torch.Tensor:
    return _half(blocks, 0) * blocks[:, 2:].view(torch.int8).float()


def _with_scales_of_6_bits(blocks: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Returns the numbers of blocks that begin as those of q4_k do, from their codes [n, 8, 32]."""
    first, second, last = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = torch.cat([first & 63, last & 15 | first >> 6 << 4], dim=-1).float() * _half(blocks, 0)
    offsets = torch.cat([second & 63, last >> 4 | second >> 6 << 4], dim=-1).float() * _half(blocks, 2)
    return (scales[:, :, None] * codes.float() - offsets[:, :, None]).reshape(-1, 256)


def _q4_k(blocks: torch.Tensor) -> torch.Tensor:
    return _with_scales_of_6_bits(blocks, _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32))


def _q5_k(blocks: torch.Tensor) -> torch.Tensor:
    low = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    upper = blocks[:, None, 16:48] >> torch.arange(8, dtype=torch.uint8)[None, :, None] & 1
    return _with_scales_of_6_bits(blocks, low | upper << 4)


def _q6_k(blocks: torch.Tensor) -> torch.Tensor:
    low = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8)[None, None, :, None]
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts & 3
    codes = (low | high << 4).reshape(-1, 16, 16).float() - 32
    scales = blocks[:, 192:208].view(torch.int8).float() * _half(blocks, 208)
    return (scales[:, :, None] * codes).reshape(-1, 256)


FORMATS = {
    "q4_0": Format(32, 18, _q4_0),
    "q4_1": Format(32, 20, _q4_1),
    "q5_0": Format(32, 22, _q5_0),
    "q5_1": Format(32, 24, _q5_1),
    "q8_0": Format(32, 34, _q8_0),
    "q4_k": Format(256, 144, _q4_k),
    "q5_k": Format(256, 176, _q5_k),
    "q6_k": Format(256, 210, _q6_k),
}


def row_elements(blocks: torch.Tensor, kind: str) -> int:
    """Returns how many numbers a row of ``blocks`` [rows, bytes] (uint8) holds. Raises ``ValueError`` for an unknown
    kind, and if ``blocks`` are no blocks of this kind."""
    if kind not in FORMATS:
        raise ValueError(f"unknown type of blocks {kind!r}; known are {', '.join(FORMATS)}")
    size = FORMATS[kind].bytes
    if blocks.dtype != torch.uint8 or blocks.dim() != 2 or blocks.shape[1] % size != 0:
        raise ValueError(
            f"blocks of {kind} are a uint8 tensor [rows, multiple of {size}], got {blocks.dtype} {list(blocks.shape)}"
        )
    return blocks.shape[1] // size * FORMATS[kind].elements


def dequantise(blocks: torch.Tensor, kind: str) -> torch.Tensor:
    """Returns the numbers in ``blocks`` [rows, bytes] as f32 [rows, elements]. Raises ``ValueError`` as
    ``row_elements`` does."""
    columns = row_elements(blocks, kind)
    return FORMATS[kind].decode(blocks.reshape(-1, FORMATS[kind].bytes)).reshape(blocks.shape[0], columns)
