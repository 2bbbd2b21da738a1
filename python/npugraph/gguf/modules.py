# SPDX-License-Identifier: Apache-2.0
"""Layers whose weights are blocks of GGUF files."""

from __future__ import annotations

import torch
from torch import nn

from npugraph.gguf import operators  # noqa: F401  (defines torch.ops.npugraph.*)
from npugraph.gguf.blocks import row_elements


class QuantisedLinear(nn.Module):
    """``nn.Linear`` over ``blocks`` [out_features, bytes], which several layers may share.

    With ``int8``, activations are rounded to 8 bits before they are multiplied (operators.round_to_int8).
    """

    def __init__(self, blocks: nn.Parameter, kind: str, bias: nn.Parameter | None = None, int8: bool = False) -> None:
        super().__init__()
        self.blocks = blocks
        self.kind = kind
        self.int8 = int8
        self.bias = bias
        self.out_features = blocks.shape[0]
        self.in_features = row_elements(blocks, kind)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, self.in_features)
        y = torch.ops.npugraph.gguf_linear(rows, self.blocks, self.kind, self.int8)
        if self.bias is not None:
            y = y + self.bias
        return y.reshape(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        int8 = ", int8" if self.int8 else ""
        return f"{self.in_features}, {self.out_features}, {self.kind}{int8}, bias={self.bias is not None}"


class QuantisedEmbedding(nn.Module):
    """``nn.Embedding`` over ``blocks`` [num_embeddings, bytes]. It returns rows of ``dtype``."""

    def __init__(self, blocks: nn.Parameter, kind: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.blocks = blocks
        self.kind = kind
        self.dtype = dtype
        self.num_embeddings = blocks.shape[0]
        self.embedding_dim = row_elements(blocks, kind)

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return torch.ops.npugraph.gguf_embedding(self.blocks, indices, self.kind, self.dtype)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, {self.kind}"
