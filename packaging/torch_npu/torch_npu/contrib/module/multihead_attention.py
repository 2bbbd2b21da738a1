# SPDX-License-Identifier: Apache-2.0
"""Attention with several heads (Vaswani et al., 2017), with the arguments of fairseq (Ott et al., 2019)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from torch_npu.contrib.function.matmul_transpose import matmul_transpose as Matmul_transpose

__all__ = ["Matmul_transpose", "MultiheadAttention"]


class MultiheadAttention(nn.Module):
    """Projects query, key and value, computes softmax(q @ k^T / sqrt(size of a head)) @ v, and projects the result.

    Raises ValueError unless ``embed_dim`` is a multiple of ``num_heads``, and, with ``self_attention``, equal to
    ``kdim`` and ``vdim``.

    Args:
        kdim, vdim: sizes of rows of keys and values, ``embed_dim`` by default.
        dropout: the share of weights that are dropped in training.
        add_bias_kv: whether each sequence has one more key and value, which are learnt.
        add_zero_attn: whether each sequence has one more key and value, of zeros.
        self_attention: whether keys and values are those of the query.
        encoder_decoder_attention: whether values are those of the key.
        q_noise, qn_block_size: in training, weights of projections lack this share of blocks, each of this many inputs
            (Fan et al., Quant-Noise, 2020).
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        kdim: int | None = None,
        vdim: int | None = None,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        self_attention: bool = False,
        encoder_decoder_attention: bool = False,
        q_noise: float = 0.0,
        qn_block_size: int = 8,
    ):
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise ValueError(
                f"MultiheadAttention: embed_dim is {embed_dim}, allowed are multiples of {num_heads} heads"
            )
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        if self_attention and (self.kdim, self.vdim) != (embed_dim, embed_dim):
            raise ValueError(
                f"MultiheadAttention: kdim is {self.kdim}, vdim is {self.vdim}, with self_attention allowed is "
                f"{embed_dim}"
            )
        self.dropout, self.add_zero_attn = dropout, add_zero_attn
        self.self_attention, self.encoder_decoder_attention = self_attention, encoder_decoder_attention
        self.q_noise, self.qn_block_size = q_noise, qn_block_size
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias)
        self.k_proj = nn.Linear(self.kdim, embed_dim, bias)
        self.v_proj = nn.Linear(self.vdim, embed_dim, bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias)
        self.bias_k = nn.Parameter(torch.empty(1, 1, embed_dim)) if add_bias_kv else None
        self.bias_v = nn.Parameter(torch.empty(1, 1, embed_dim)) if add_bias_kv else None
        self.reset_parameters()

    def prepare_for_onnx_export_(self) -> None:
        """Does nothing."""

    def prepare_for_tpu_(self, **kwargs) -> None:
        """Does nothing."""

    def reset_parameters(self) -> None:
        """Draws new weights (Glorot and Bengio, 2010)."""
        is_one_matrix = self.kdim == self.vdim == self.embed_dim
        for proj in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(proj.weight, gain=1 / math.sqrt(2) if is_one_matrix else 1)
        nn.init.xavier_uniform_(self.out_proj.weight)
        if self.out_proj.bias is not None:
            nn.init.zeros_(self.out_proj.bias)
        for one in (self.bias_k, self.bias_v):
            if one is not None:
                nn.init.xavier_normal_(one)

    def transpose_for_scores(self, x: Tensor) -> Tensor:
        """Makes [batches, heads, rows, size of a head] of [batches, rows, embed_dim]."""
        return x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        bsz: int,
        tgt_len: int,
        s_len: int,
        key_padding_mask: Tensor | None = None,
        incremental_state: dict[str, dict[str, Tensor | None]] | None = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Tensor | None = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Returns the result, which is like ``query``, and weights. With ``need_head_weights`` the weights are those of
        all heads [heads, bsz, tgt_len, keys], with ``need_weights`` their mean [bsz, tgt_len, keys], else None. With
        ``before_softmax`` it returns the scores of all heads [bsz, heads, tgt_len, keys], and the values.

        Args:
            query: [bsz * tgt_len, embed_dim], the rows of a sequence one after another.
            key, value: [bsz * s_len, kdim or vdim]. They may be None if others take their place (see the class).
            key_padding_mask: [bsz, s_len], true for keys that do not count.
            incremental_state: keeps keys and values for later calls, which give new rows only.
            static_kv: whether keys and values are those of the first call with this ``incremental_state``.
            attn_mask: [tgt_len, keys], added to the scores.
        """
        before = self._kept(incremental_state)
        k, v = self._keys_and_values(query, key, value, bsz, before, static_kv)
        mask = self._padding(key_padding_mask, k, before, static_kv and bool(before))
        if incremental_state is not None:
            incremental_state[self._place()] = {"prev_key": k, "prev_value": v, "prev_key_padding_mask": mask}
        k, v, mask, attn_mask = self._longer(k, v, mask, attn_mask)
        q = self.transpose_for_scores(self._project(self.q_proj, query).reshape(bsz, tgt_len, -1))
        scores = Matmul_transpose(q * self.head_dim**-0.5, k)
        scores = self.apply_sparse_mask(scores, tgt_len, k.shape[2], bsz)
        if attn_mask is not None:
            scores = scores + attn_mask
        if mask is not None:
            scores = scores.masked_fill(mask.bool()[:, None, None], -math.inf)
        if before_softmax:
            return scores, v
        weights = scores.float().softmax(-1).type_as(scores)
        out = nn.functional.dropout(weights, self.dropout, self.training) @ v
        out = self._project(self.out_proj, out.transpose(1, 2).reshape(query.shape))
        if need_head_weights:
            return out, weights.transpose(0, 1)
        return out, weights.mean(1) if need_weights else None

    def multi_attn(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, bsz: int, tgt_len: int
    ) -> Tensor:
        """Returns the result of ``forward`` alone."""
        return self(query, key, value, bsz, tgt_len, len(key) // bsz, key_padding_mask, need_weights=False)[0]

    def apply_sparse_mask(self, attn_weights: Tensor, tgt_len: int, src_len: int, bsz: int) -> Tensor:
        """Returns the weights unchanged. Subclasses leave out some of the keys here."""
        return attn_weights

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Splits the projection ``in_proj`` of ``state_dict``, if it has one, into those of query, key and value."""
        prefix = f"{name}." if name else ""
        for kind in ("weight", "bias"):
            whole = state_dict.pop(f"{prefix}in_proj_{kind}", None)
            if whole is not None:
                for proj, part in zip("qkv", whole.chunk(3), strict=True):
                    state_dict[f"{prefix}{proj}_proj.{kind}"] = part

    def _project(self, proj: nn.Linear, x: Tensor) -> Tensor:
        if not self.training or not self.q_noise:
            return proj(x)
        blocks = torch.rand_like(proj.weight[:, :: self.qn_block_size]) < self.q_noise
        lacks = blocks.repeat_interleave(self.qn_block_size, 1)[:, : proj.in_features]
        return nn.functional.linear(x, proj.weight.masked_fill(lacks, 0) / (1 - self.q_noise), proj.bias)

    def _place(self) -> str:
        return f"{id(self)}.attn_state"

    def _kept(self, state: dict[str, dict[str, Tensor | None]] | None) -> dict[str, Tensor | None]:
        return {} if state is None else state.get(self._place(), {})

    def _keys_and_values(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        bsz: int,
        before: dict[str, Tensor | None],
        static_kv: bool,
    ) -> tuple[Tensor, Tensor]:
        """Returns keys and values of all heads, after those of earlier calls."""
        if before and static_kv:
            return before["prev_key"], before["prev_value"]
        if self.self_attention:
            key = value = query
        elif self.encoder_decoder_attention:
            value = key
        k, v = (
            self.transpose_for_scores(self._project(proj, x).reshape(bsz, -1, self.embed_dim))
            for proj, x in ((self.k_proj, key), (self.v_proj, value))
        )
        if before:
            k, v = torch.cat([before["prev_key"], k], 2), torch.cat([before["prev_value"], v], 2)
        return k, v

    def _padding(
        self, mask: Tensor | None, keys: Tensor, before: dict[str, Tensor | None], is_complete: bool
    ) -> Tensor | None:
        """Returns the padding mask [bsz, keys] of earlier calls and of this one. Keys without a mask count."""
        earlier = before.get("prev_key_padding_mask")
        if is_complete and earlier is not None:
            return earlier
        if (mask is None and earlier is None) or (mask is not None and mask.shape[1] == keys.shape[2]):
            return mask
        out = torch.zeros(len(keys), keys.shape[2], dtype=torch.bool, device=keys.device)
        if earlier is not None:
            out[:, : earlier.shape[1]] = earlier.bool()
        if mask is not None:
            out[:, keys.shape[2] - mask.shape[1] :] = mask.bool()
        return out

    def _longer(
        self, k: Tensor, v: Tensor, mask: Tensor | None, attn_mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Appends the keys and values that each sequence has besides."""
        more = []
        if self.bias_k is not None:
            more.append([self.transpose_for_scores(one.expand(len(k), 1, -1)) for one in (self.bias_k, self.bias_v)])
        if self.add_zero_attn:
            more.append([torch.zeros_like(one[:, :, :1]) for one in (k, v)])
        for one_k, one_v in more:
            k, v = torch.cat([k, one_k.to(k.dtype)], 2), torch.cat([v, one_v.to(v.dtype)], 2)
            mask, attn_mask = (x if x is None else nn.functional.pad(x, (0, 1)) for x in (mask, attn_mask))
        return k, v, mask, attn_mask
