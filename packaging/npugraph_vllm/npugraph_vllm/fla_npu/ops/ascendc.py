# SPDX-License-Identifier: Apache-2.0
"""Convolutions and delta rules of recurrent layers, by the operators of npu.

It has no ``chunk_gated_delta_rule_fwd``: without that name vllm-ascend calls ``torch_npu.npu_chunk_gated_delta_rule``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

npu = torch.ops.npu


def causal_conv1d_fn(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    conv_states: Tensor,
    query_start_loc: Tensor,
    cache_indices: Tensor,
    has_initial_state: Tensor | None,
    activation: str | None,
    pad_slot_id: int = -1,
    null_block_id: int | None = None,
) -> Tensor:
    """Convolves the sequences of ``x``, [tokens, channels]; those in the block of no request are left out."""
    return npu.npu_fused_causal_conv1d(
        x,
        weight,
        conv_states,
        query_start_loc=query_start_loc,
        cache_indices=_without_null_block(cache_indices, null_block_id, pad_slot_id),
        initial_state_mode=None if has_initial_state is None else has_initial_state.int(),
        bias=bias,
        activation=activation or "None",
        pad_slot_id=pad_slot_id,
    )


def causal_conv1d_update(
    x: Tensor,
    conv_state: Tensor,
    weight: Tensor,
    *,
    bias: Tensor | None = None,
    activation: str | None = None,
    conv_state_indices: Tensor,
    num_accepted_tokens: Tensor | None = None,
    query_start_loc: Tensor | None = None,
    max_query_len: int = -1,
    pad_slot_id: int = -1,
    null_block_id: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Convolves tokens that go on with sequences whose last tokens are in ``conv_state``."""
    y = npu.npu_fused_causal_conv1d(
        x,
        weight,
        conv_state,
        query_start_loc=query_start_loc,
        cache_indices=_without_null_block(conv_state_indices, null_block_id, pad_slot_id),
        bias=bias,
        num_accepted_tokens=num_accepted_tokens,
        activation=activation or "None",
        pad_slot_id=pad_slot_id,
        run_mode=1,
        max_query_len=max_query_len,
    )
    return y if out is None else out.copy_(y)


def _without_null_block(indices: Tensor, null_block_id: int | None, pad_slot_id: int) -> Tensor:
    return indices if null_block_id is None else indices.masked_fill(indices == null_block_id, pad_slot_id)


def recurrent_gated_delta_rule(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    state: Tensor,
    *,
    g: Tensor | None = None,
    beta: Tensor | None = None,
    scale: float | None = None,
    actual_seq_lengths: Tensor,
    ssm_state_indices: Tensor,
    num_accepted_tokens: Tensor | None = None,
) -> Tensor:
    """``actual_seq_lengths`` has the place of the first sequence, and then the length of each."""
    return npu.npu_recurrent_gated_delta_rule(
        query,
        key,
        value,
        state,
        beta=beta,
        scale=scale,
        actual_seq_lengths=actual_seq_lengths[1:],
        ssm_state_indices=ssm_state_indices,
        num_accepted_tokens=num_accepted_tokens,
        g=g,
    )


def recurrent_kda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    state: Tensor,
    *,
    cu_seqlens: Tensor,
    ssm_state_indices: Tensor,
    A_log: Tensor,
    dt_bias: Tensor,
    num_accepted_tokens: Tensor | None = None,
    scale: float,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = True,
    use_beta_sigmoid_in_kernel: bool = False,
    safe_gate: bool = False,
    lower_bound: float = -5.0,
    **layout: Any,
) -> tuple[Tensor, Tensor]:
    """The delta rule with a gate for each channel of the key (Kimi Linear, 2025), of [1, tokens, heads, size]. Places
    of states are those of sequences, or [sequence, token]."""
    _check_layout(layout)
    if use_qk_l2norm_in_kernel:
        q, k = _unit(q), _unit(k)
    if use_beta_sigmoid_in_kernel:
        beta = beta.sigmoid()
    if use_gate_in_kernel:
        g = _gate(g, A_log, dt_bias, lower_bound if safe_gate else None)
    return _with_channel_gates(
        q, k, v, g, beta, state, scale, cu_seqlens, ssm_state_indices, num_accepted_tokens
    ), state


def chunk_kda_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: float,
    chunk_size: int,
    *,
    initial_state: Tensor,
    cu_seqlens: Sequence[int],
    A_log: Tensor,
    dt_bias: Tensor,
    use_gate_in_kernel: bool = True,
    safe_gate: bool = False,
    lower_bound: float = -5.0,
    chunk_indices: Sequence[int] | None = None,
    disable_recompute: bool = False,
    return_intermediate_states: bool = False,
    **layout: Any,
) -> tuple[Tensor, Tensor]:
    """recurrent_kda of whole sequences, each from its initial state. Results: rows of tokens, and the last states."""
    _check_layout(layout)
    if use_gate_in_kernel:
        g = _gate(g, A_log, dt_bias, lower_bound if safe_gate else None)
    ends = torch.tensor(cu_seqlens, dtype=torch.int32, device=q.device)
    state, places = initial_state.clone(), torch.arange(len(ends) - 1, dtype=torch.int32, device=q.device)
    return _with_channel_gates(q, k, v, g, beta, state, scale, ends, places, None), state


def _check_layout(options: dict[str, Any]) -> None:
    for name, allowed in (("layout", "BSND"), ("state_v_first", True), ("allow_neg_eigval", False)):
        if options.get(name, allowed) != allowed:
            raise NotImplementedError(f"fla_npu: {name} is {options[name]!r}; npugraph-vllm has {allowed!r} alone")


def _unit(x: Tensor) -> Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + 1e-6)).to(x.dtype)


def _gate(raw: Tensor, A_log: Tensor, dt_bias: Tensor, lower_bound: float | None) -> Tensor:
    """Logarithms of gates: below 0, and with a bound above that."""
    x, rate = raw.float() + dt_bias.float().view(raw.shape[-2:]), A_log.float().exp().view(-1, 1)
    return -rate * torch.nn.functional.softplus(x) if lower_bound is None else lower_bound * torch.sigmoid(rate * x)


def _with_channel_gates(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    state: Tensor,
    scale: float,
    ends: Tensor,
    places: Tensor,
    accepted: Tensor | None,
) -> Tensor:
    token = torch.arange(v.shape[1], device=ends.device, dtype=ends.dtype)
    sequence = torch.searchsorted(ends[1:], token, right=True).clamp_max(len(ends) - 2)
    if places.dim() == 2:
        inside = (token - ends[sequence]).clamp(0, places.shape[1] - 1)
        of_tokens = places[sequence, inside]
    else:
        of_tokens = places[sequence]
    out = npu.npu_recurrent_gated_delta_rule(
        q.squeeze(0),
        k.squeeze(0),
        v.squeeze(0),
        state,
        beta=beta.squeeze(0),
        scale=scale,
        actual_seq_lengths=ends.diff().int(),
        ssm_state_indices=of_tokens.int(),
        num_accepted_tokens=None if accepted is None else accepted.int(),
        gk=g.squeeze(0),
    )
    return out.unsqueeze(0)
