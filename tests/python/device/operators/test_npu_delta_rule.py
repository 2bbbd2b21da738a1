# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/recurrent/delta_rule.cc, and sizes of those of shaped_norms.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, normal


def delta_rule(state, q, k, v, beta, g, gk):
    """Computes one token of one head. ``state``: [value dim, key dim]."""
    state = state * torch.exp(g) * torch.exp(gk)
    state = state + beta * torch.outer(v - state @ k, k)
    return state @ q, state


def gate(x, token, head):
    return torch.zeros(()).double() if x is None else x[token, head]


def run(states, q, k, v, token, *, beta=None, scale=None, g=None, gk=None):
    """Computes one token of all heads, and writes ``states``: [heads, value dim, key dim]."""
    heads, of_key = v.shape[1], v.shape[1] // k.shape[1]
    out = []
    for head in range(heads):
        query, key = q[token, head // of_key] * (1.0 if scale is None else scale), k[token, head // of_key]
        b = 1.0 if beta is None else beta[token, head]
        y, states[head] = delta_rule(
            states[head], query, key, v[token, head], b, gate(g, token, head), gate(gk, token, head)
        )
        out.append(y)
    return torch.stack(out)


def recurrent(q, k, v, state, *, actual_seq_lengths, ssm_state_indices, num_accepted_tokens=None, **given):
    out, start = torch.zeros_like(v), 0
    for sequence, length in enumerate(actual_seq_lengths.tolist()):
        accepted = 1 if num_accepted_tokens is None else int(num_accepted_tokens[sequence])
        current = state[ssm_state_indices[start + accepted - 1]].clone()
        for token in range(start, start + length):
            out[token] = run(current, q, k, v, token, **given)
            state[ssm_state_indices[token]] = current
        start += length
    return out


def arguments(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    sizes = [(5, 2, 4), (5, 2, 4), (5, 4, 3), (7, 4, 3, 4)]
    return tuple(normal(*size, seed=i).to(dtype) / 2 for i, size in enumerate(sizes))


GIVEN = {
    "beta": normal(5, 4, seed=4).sigmoid(),
    "g": -normal(5, 4, seed=5).abs(),
    "actual_seq_lengths": torch.tensor([3, 2], dtype=torch.int32),
}


def test_recurrent_gated_delta_rule() -> None:
    places = torch.tensor([6, 1, 2, 4, 0], dtype=torch.int32)
    op = torch_npu.npu_recurrent_gated_delta_rule
    check(op, arguments(), recurrent, ssm_state_indices=places, **GIVEN, scale=0.5, whole=True)
    accepted = torch.tensor([2, 1], dtype=torch.int32)
    more = {"num_accepted_tokens": accepted, "gk": -normal(5, 4, 4, seed=6).abs()}
    check(op, arguments(), recurrent, ssm_state_indices=places, **GIVEN, **more, whole=True)

    # The operator does not look at the places of tokens that belong to no sequence.
    short = GIVEN | {"actual_seq_lengths": torch.tensor([2, 1], dtype=torch.int32)}
    check(op, arguments(), recurrent, ssm_state_indices=places * torch.tensor([1, 1, 1, 99, 99]), **short, whole=True)

    # Sequences whose places are negative fill the batch.
    def of_the_first(q, k, v, state, *, ssm_state_indices, **given):
        lengths = torch.tensor([3])
        out = recurrent(q, k, v, state, ssm_state_indices=ssm_state_indices, **given | {"actual_seq_lengths": lengths})
        return out

    check(op, arguments(), of_the_first, ssm_state_indices=places.where(places != 4, -1), **GIVEN, whole=True)

    def functional(q, k, v, state, **given):
        state = state.clone()
        return recurrent(q, k, v, state, **given), state

    op = torch_npu.npu_recurrent_gated_delta_rule_functional
    check(
        op, arguments(torch.bfloat16)[:3] + arguments()[3:], functional, ssm_state_indices=places, **GIVEN, whole=True
    )


def chunk(q, k, v, *, initial_state=None, actual_seq_lengths=None, **given):
    lengths = [len(v)] if actual_seq_lengths is None else actual_seq_lengths.tolist()
    shape = (len(lengths), v.shape[1], v.shape[2], k.shape[2])
    states = torch.zeros(shape, dtype=v.dtype) if initial_state is None else initial_state.clone()
    out, token = torch.zeros_like(v), 0
    for sequence, length in enumerate(lengths):
        for _ in range(length):
            out[token] = run(states[sequence], q, k, v, token, **given)
            token += 1
    return out, states


def test_chunk_gated_delta_rule() -> None:
    op, (q, k, v, state) = torch_npu.npu_chunk_gated_delta_rule, arguments()
    check(op, (q, k, v), chunk, **GIVEN, initial_state=state[:2], scale=0.5, whole=True)
    check(op, (q, k, v), chunk, whole=True)


def test_lengths_and_states_that_do_not_fit_are_refused() -> None:
    q, k, v, state = arguments()
    with pytest.raises(RuntimeError, match="actual_seq_lengths and ssm_state_indices are needed"):
        torch_npu.npu_recurrent_gated_delta_rule(q, k, v, state)
    with pytest.raises(RuntimeError, match="actual_seq_lengths sum up to 9, and there are 5 tokens"):
        torch_npu.npu_chunk_gated_delta_rule(q, k, v, actual_seq_lengths=torch.tensor([9]))
    with pytest.raises(RuntimeError, match="initial_state has 7 states for 1 sequences"):
        torch_npu.npu_chunk_gated_delta_rule(q, k, v, initial_state=state)
    with pytest.raises(RuntimeError, match="value has 3 heads, which is no multiple of those of key, 2"):
        torch_npu.npu_chunk_gated_delta_rule(q, k, v[:, :3])
