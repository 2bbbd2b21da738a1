# SPDX-License-Identifier: Apache-2.0
"""The attention of BERT (Devlin et al., 2019) from the hidden states on. Its heads are of size 64."""

from __future__ import annotations

import torch

__all__ = ["npu_fused_attention", "npu_fused_attention_with_layernorm"]

_HEAD_SIZE = 64


def npu_fused_attention(
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor,
    query_kernel: torch.Tensor,
    key_kernel: torch.Tensor,
    value_kernel: torch.Tensor,
    query_bias: torch.Tensor,
    key_bias: torch.Tensor,
    value_bias: torch.Tensor,
    scale: float = 1,
    keep_prob: float = 0,
) -> torch.Tensor:
    """Calls ``npu_fused_attention_score`` on query, key and value, which are ``hidden_states @ kernel + bias``. Returns
    [batches * rows, size]. Raises ValueError unless ``size`` is a multiple of 64.

    Args:
        hidden_states: [batches * rows, size].
        attention_mask: [batches, 1, rows, rows], added to the scores.
        query_kernel, key_kernel, value_kernel: [size, size], inputs first.
        scale: the factor of the scores.
        keep_prob: the share of weights that dropout keeps. By default it keeps none.
    """
    if hidden_states.shape[-1] % _HEAD_SIZE:
        raise ValueError(
            f"npu_fused_attention: hidden_states has rows of {hidden_states.shape[-1]}, allowed are multiples of "
            f"{_HEAD_SIZE}"
        )
    batches, rows = attention_mask.shape[0], attention_mask.shape[-1]

    def heads(kernel: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return (hidden_states @ kernel + bias).view(batches, rows, -1, _HEAD_SIZE).transpose(1, 2)

    query, key, value = heads(query_kernel, query_bias), heads(key_kernel, key_bias), heads(value_kernel, value_bias)
    return torch.ops.npu.npu_fused_attention_score(query, key, value, attention_mask, scale, keep_prob)


def npu_fused_attention_with_layernorm(
    hidden_states: torch.Tensor,
    attention_mask: torch.Tensor,
    query_kernel: torch.Tensor,
    key_kernel: torch.Tensor,
    value_kernel: torch.Tensor,
    query_bias: torch.Tensor,
    key_bias: torch.Tensor,
    value_bias: torch.Tensor,
    gamma: torch.Tensor,
    beta: torch.Tensor,
    scale: float = 1,
    keep_prob: float = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the layer norm of ``hidden_states`` with weight ``gamma`` and bias ``beta``, and ``npu_fused_attention``
    of it. Layers add the norm to their result."""
    norm = torch.nn.functional.layer_norm(hidden_states, gamma.shape, gamma, beta)
    kernels, biases = (query_kernel, key_kernel, value_kernel), (query_bias, key_bias, value_bias)
    return norm, npu_fused_attention(norm, attention_mask, *kernels, *biases, scale, keep_prob)
