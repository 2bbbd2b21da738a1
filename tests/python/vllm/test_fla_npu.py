# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers by the names that vllm-ascend calls, against loops over tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from npugraph_vllm.fla_npu.ops import ascendc

from tests.python.device.npu_operators import check, normal

CHANNELS, TAPS = 6, 4
HEADS, KEY, VALUE = 2, 4, 3


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def convolved(x, weight, bias, states, starts, slots, continues):
    """Each token and those before it in its sequence; sequences in slots below 1 are left out."""
    y = torch.zeros_like(x)
    for i, slot in enumerate(slots.tolist()):
        tokens = x[starts[i] : starts[i + 1]]
        if slot > 0:
            seen = torch.cat([states[slot, : TAPS - 1] * bool(continues[i]), tokens])
            windows = torch.stack([seen[t : t + TAPS] for t in range(len(tokens))])
            y[starts[i] : starts[i + 1]] = torch.nn.functional.silu((windows * weight).sum(1) + bias)
            states[slot, : TAPS - 1] = seen[1 - TAPS :]
    return y


def test_convolution_of_prompts() -> None:
    starts, slots, continues = ints(0, 5, 7, 10), ints(3, 0, 1), torch.tensor([True, True, False])
    given = normal(10, CHANNELS), normal(TAPS, CHANNELS, seed=1), normal(CHANNELS, seed=2)

    def call(x, weight, bias, states, starts, slots, continues):
        options = {"cache_indices": slots, "has_initial_state": continues, "query_start_loc": starts}
        return ascendc.causal_conv1d_fn(
            x, weight, bias, conv_states=states, activation="silu", null_block_id=0, **options
        )

    args = *given, normal(5, TAPS - 1, CHANNELS, seed=3), starts, slots, continues
    check(call, args, convolved, dynamic=False, whole=True)


def test_convolution_of_one_token_each() -> None:
    starts, slots = ints(0, 1, 2, 3), ints(2, 0, 4)

    def call(x, weight, bias, states, starts, slots, out):
        options = {"bias": bias, "activation": "silu", "null_block_id": 0, "out": out, "max_query_len": 1}
        y = ascendc.causal_conv1d_update(x, states, weight, conv_state_indices=slots, query_start_loc=starts, **options)
        assert y is out

    def reference(x, weight, bias, states, starts, slots, out):
        out.copy_(convolved(x, weight, bias, states, starts, slots, [True] * 3))

    x, weight, bias = normal(3, CHANNELS), normal(TAPS, CHANNELS, seed=1), normal(CHANNELS, seed=2)
    args = x, weight, bias, normal(5, TAPS - 1, CHANNELS, seed=3), starts, slots, torch.zeros(3, CHANNELS)
    check(call, args, reference, dynamic=False, whole=True)


def delta_rule(q, k, v, states, gates, beta, scale, starts, place_of):
    """Gates are logarithms for each channel of the key. ``place_of(sequence, token)`` is where a state is kept."""
    out = torch.zeros_like(v)
    for i in range(len(starts) - 1):
        start, end = int(starts[i]), int(starts[i + 1])
        state = states[place_of(i, 0)].clone()
        for t in range(start, end):
            state = state * gates[t].exp().unsqueeze(-2)
            error = v[t] - torch.einsum("hvk,hk->hv", state, k[t])
            state = state + beta[t].view(-1, 1, 1) * error.unsqueeze(-1) * k[t].unsqueeze(-2)
            out[t] = torch.einsum("hvk,hk->hv", state, q[t]) * scale
            states[place_of(i, t - start)] = state
    return out


def rows(count: int) -> tuple[torch.Tensor, ...]:
    sizes = (HEADS, KEY), (HEADS, KEY), (HEADS, VALUE)
    return tuple(normal(count, *size, seed=seed) / 2 for seed, size in enumerate(sizes))


@pytest.mark.parametrize("lengths", [[1, 1, 1], [4, 1, 3]])
def test_recurrent_gated_delta_rule(lengths: list[int]) -> None:
    count, starts = sum(lengths), [sum(lengths[:i]) for i in range(4)]
    g, beta = -normal(count, HEADS, seed=4).abs(), normal(count, HEADS, seed=5).sigmoid()
    of_tokens = torch.repeat_interleave(ints(5, 0, 2), torch.tensor(lengths))

    def call(q, k, v, states, g, beta, lengths, places):
        options = {"scale": 0.5, "actual_seq_lengths": lengths, "ssm_state_indices": places}
        return ascendc.recurrent_gated_delta_rule(q, k, v, states, g=g, beta=beta, **options)

    def reference(q, k, v, states, g, beta, *_: Any):
        gates = g.unsqueeze(-1).expand(-1, -1, KEY)
        return delta_rule(q, k, v, states, gates, beta, 0.5, starts, lambda i, _: [5, 0, 2][i])

    args = *rows(count), normal(6, HEADS, VALUE, KEY, seed=6), g, beta, ints(0, *lengths), of_tokens
    check(call, args, reference, dynamic=False, whole=True)


def kda_gates(raw, a_log, dt_bias, bound):
    x, rate = raw + dt_bias.view(HEADS, KEY), a_log.exp().view(-1, 1)
    return -rate * torch.log1p(x.exp()) if bound is None else bound * torch.sigmoid(rate * x)


@pytest.mark.parametrize("bound", [None, -5.0])
@pytest.mark.parametrize("is_prompt", [True, False])
def test_kda_layers_follow_the_loop_over_tokens(is_prompt: bool, bound: float | None) -> None:
    starts = [0, 4, 5, 8] if is_prompt else [0, 1, 2, 3]
    count = starts[-1]
    raw, beta = normal(count, HEADS, KEY, seed=4), normal(count, HEADS, seed=5).sigmoid()
    args = *rows(count), raw, beta, normal(6, HEADS, VALUE, KEY, seed=6), normal(HEADS, seed=7), normal(HEADS * KEY)
    safe = {"safe_gate": bound is not None, "lower_bound": bound or -5.0}

    def call(q, k, v, raw, beta, states, a_log, dt_bias):
        batch = [x.unsqueeze(0) for x in (q, k, v, raw, beta)]
        options = {"A_log": a_log, "dt_bias": dt_bias, **safe}
        if is_prompt:
            return ascendc.chunk_kda_fwd(*batch, 0.5, 64, initial_state=states[:3], cu_seqlens=starts, **options)
        options |= {"cu_seqlens": ints(*starts).to(q.device), "ssm_state_indices": ints(5, 0, 2).to(q.device)}
        return ascendc.recurrent_kda(*batch, states, scale=0.5, use_qk_l2norm_in_kernel=True, **options)[0]

    def reference(q, k, v, raw, beta, states, a_log, dt_bias):
        gates = kda_gates(raw, a_log, dt_bias, bound)
        if is_prompt:
            last = states[:3].clone()
            return delta_rule(q, k, v, last, gates, beta, 0.5, starts, lambda i, _: i).unsqueeze(0), last
        q, k = (torch.nn.functional.normalize(x, dim=-1) for x in (q, k))
        return delta_rule(q, k, v, states, gates, beta, 0.5, starts, lambda i, _: [5, 0, 2][i]).unsqueeze(0)

    on_npu = [x.to("npu") for x in args]
    wide = [x.double() for x in args]
    got, want = call(*on_npu), reference(*wide)
    for g, w in zip((got, on_npu[5]), (want, wide[5]), strict=True):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-4, check_device=False, check_dtype=False)


def test_prompts_take_the_operator_of_npu() -> None:
    assert not hasattr(ascendc, "chunk_gated_delta_rule_fwd")
