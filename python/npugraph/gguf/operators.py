# SPDX-License-Identifier: Apache-2.0
"""The operators ``npugraph::gguf_linear`` and ``npugraph::gguf_embedding``.

The functions here define their meaning by dequantisation. They run in eager mode, and generated code is tested against
them. The operators are for inference: no gradients flow through them.
"""

from __future__ import annotations

import torch

from npugraph.gguf.blocks import dequantise, row_elements

GROUP = 32  # elements of an activation that share a scale

torch.library.define("npugraph::gguf_linear", "(Tensor x, Tensor blocks, str type, bool int8=False) -> Tensor")
torch.library.define(
    "npugraph::gguf_embedding", "(Tensor blocks, Tensor indices, str type, ScalarType dtype) -> Tensor"
)


def round_to_int8(x: torch.Tensor) -> torch.Tensor:
    """Returns ``x`` in f32, rounded to 8 bits along its last dimension: every ``GROUP`` elements share the scale
    max|x| / 127."""
    groups = x.float().unflatten(-1, (-1, GROUP))
    largest = groups.abs().amax(-1, keepdim=True)
    inverse = torch.where(largest > 0, 127 / largest, 0)
    return ((groups * inverse).round() * (largest / 127)).flatten(-2)


def _check(x: torch.Tensor, blocks: torch.Tensor, kind: str) -> None:
    columns = row_elements(blocks, kind)
    if x.dtype not in (torch.float32, torch.bfloat16, torch.float16) or x.dim() == 0 or x.shape[-1] != columns:
        raise ValueError(f"gguf_linear: rows of {columns} weights and x of {x.dtype} {list(x.shape)}")


@torch.library.impl("npugraph::gguf_linear", "CompositeExplicitAutograd")
def gguf_linear(x: torch.Tensor, blocks: torch.Tensor, type: str, int8: bool = False) -> torch.Tensor:
    """Returns ``x @ w.T`` for the weights ``w`` in ``blocks``, computed in f32 and rounded to the type of ``x``."""
    _check(x, blocks, type)
    factor = round_to_int8(x) if int8 else x.float()
    return torch.nn.functional.linear(factor, dequantise(blocks, type)).to(x.dtype)


@torch.library.register_fake("npugraph::gguf_linear")
def _(x: torch.Tensor, blocks: torch.Tensor, type: str, int8: bool = False) -> torch.Tensor:
    _check(x, blocks, type)
    return x.new_empty((*x.shape[:-1], blocks.shape[0]))


@torch.library.impl("npugraph::gguf_embedding", "CompositeExplicitAutograd")
def gguf_embedding(blocks: torch.Tensor, indices: torch.Tensor, type: str, dtype: torch.dtype) -> torch.Tensor:
    """Returns the rows ``indices`` of the weights in ``blocks``. Raises ``IndexError`` for an index out of range."""
    if indices.numel() > 0 and not 0 <= int(indices.min()) <= int(indices.max()) < blocks.shape[0]:
        raise IndexError("index out of range in self")
    rows = dequantise(blocks[indices.flatten()], type).to(dtype)
    return rows.reshape(*indices.shape, rows.shape[-1])


@torch.library.register_fake("npugraph::gguf_embedding")
def _(blocks: torch.Tensor, indices: torch.Tensor, type: str, dtype: torch.dtype) -> torch.Tensor:
    return blocks.new_empty((*indices.shape, row_elements(blocks, type)), dtype=dtype)
