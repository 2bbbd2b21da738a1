# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/recurrent/causal_convolutions.cc, against loops over sequences and tokens."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import FLOATING, check, check_gradient, check_refused, normal

S, B, D = 6, 3, 5


def masked(x: torch.Tensor, weight: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    taps = weight.shape[0]
    padded = torch.nn.functional.pad(x.permute(1, 2, 0), (taps - 1, 0))
    y = torch.nn.functional.conv1d(padded, weight.t().unsqueeze(1), groups=x.shape[2]).permute(2, 0, 1)
    return y if mask is None else y * mask.t().unsqueeze(2)


MASK = torch.arange(S) < torch.tensor([[6], [2], [4]])


@pytest.mark.parametrize("mask", [None, MASK])
@pytest.mark.parametrize("taps", [1, 3, 8])
def test_masked_convolutions_are_those_of_the_reference(mask: torch.Tensor | None, taps: int) -> None:
    x, weight = normal(S, B, D), normal(taps, D, seed=1)
    check(torch_npu.npu_masked_causal_conv1d, (x, weight), masked, compiled=taps == 3, mask=mask)
    check_gradient(torch_npu.npu_masked_causal_conv1d, (x, weight), masked, mask=mask)

    def backward(grad, x, weight, *, mask=None):
        leaves = x.requires_grad_(), weight.requires_grad_()
        return torch.autograd.grad(masked(*leaves, mask), leaves, grad)

    args, some = (normal(S, B, D, seed=2), x, weight), taps == 3
    check(torch_npu.npu_masked_causal_conv1d_backward, args, backward, dynamic=some, compiled=some, mask=mask)


def test_masked_types() -> None:
    for dtype in FLOATING:
        args = normal(S, B, D, dtype=dtype), normal(3, D, dtype=dtype, seed=1)
        check(torch_npu.npu_masked_causal_conv1d, args, masked, compiled=False)


def fused(x, weight, states, **kwargs):
    """Computes each sequence by itself. Each result comes from one window of the tokens that the convolution sees."""
    flat, before = x.reshape(-1, x.shape[-1]), weight.shape[0] - 1
    length = x.shape[1] if x.dim() == 3 else 1
    ends = kwargs.get("query_start_loc")
    ends = torch.arange(0, len(flat) + 1, length) if ends is None else ends
    count = len(ends) - 1
    slots = kwargs.get("cache_indices", torch.arange(count))
    modes = kwargs.get("initial_state_mode", torch.full((count,), kwargs.get("run_mode", 0)))
    accepted, bias = kwargs.get("num_accepted_tokens"), kwargs.get("bias", 0)
    y = torch.zeros_like(flat)
    old = states.clone()
    for s in range(count):
        tokens = flat[ends[s] : ends[s + 1]]
        row = slots[s].tolist() if slots.dim() == 2 else [slots[s].item()]
        last = int(kwargs["block_idx_last_scheduled_token"][s]) if slots.dim() == 2 else 0
        first = int(kwargs["initial_state_idx"][s]) if slots.dim() == 2 else 0
        if row[last] == kwargs.get("pad_slot_id", -1) or len(tokens) == 0:
            continue
        skip = 0 if accepted is None else int(accepted[s]) - 1
        state = old[row[first], skip : skip + before] * bool(modes[s])
        seen = torch.cat([state, tokens])
        out = torch.stack([(seen[t : t + before + 1] * weight).sum(0) for t in range(len(tokens))]) + bias
        out = out * torch.sigmoid(out) if kwargs.get("activation", "None") != "None" else out
        y[ends[s] : ends[s + 1]] = out + tokens * kwargs.get("residual_connection", 0)
        kept = seen[-before:] if accepted is None else seen[1:]
        states[row[last], : len(kept)] = kept
        for block in range(int(kwargs["block_idx_first_scheduled_token"][s]) if slots.dim() == 2 else 0, last):
            end = (block + 1) * kwargs["block_size"] - int(kwargs["num_computed_tokens"][s])
            states[row[block], :before] = seen[end : end + before]
    return y.reshape(x.shape)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


CASES: dict[str, tuple[tuple[int, ...], int, dict[str, Any]]] = {
    "prefill": (
        (9, D),
        2,
        {
            "query_start_loc": ints(0, 5, 6, 6, 8),
            "cache_indices": ints(3, 1, 5, 0),
            "initial_state_mode": ints(0, 1, 1, 0),
            "bias": normal(D, seed=7),
            "activation": "silu",
        },
    ),
    "padded": ((3, D), 2, {"cache_indices": ints(4, -1, 0), "run_mode": 1, "activation": "swish"}),
    "own_pad": ((3, D), 2, {"cache_indices": ints(7, 2, 7), "run_mode": 1, "pad_slot_id": 7}),
    "decode": ((2, 3, D), 2, {"cache_indices": ints(4, 0), "run_mode": 1, "residual_connection": 1}),
    "no_slots": ((4, 2, D), 4, {}),
    "speculative": (
        (7, D),
        4,
        {
            "query_start_loc": ints(0, 3, 4, 7),
            "cache_indices": ints(1, 5, 2),
            "num_accepted_tokens": ints(2, 1, 3),
            "run_mode": 1,
            "max_query_len": 3,
        },
    ),
    "blocks": (
        (11, D),
        2,
        {
            "query_start_loc": ints(0, 7, 8, 11),
            "cache_indices": torch.tensor([[1, 2, 3, -1], [4, 5, -1, -1], [0, 7, 6, -1]], dtype=torch.int32),
            "initial_state_mode": ints(1, 1, 0),
            "num_computed_tokens": ints(2, 5, 0),
            "block_idx_first_scheduled_token": ints(0, 1, 0),
            "block_idx_last_scheduled_token": ints(2, 1, 0),
            "initial_state_idx": ints(0, 1, 0),
            "block_size": 4,
        },
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_fused_convolutions_are_those_of_the_reference(name: str) -> None:
    size, places, kwargs = CASES[name]
    x, weight, states = normal(*size), normal(3, D, seed=1), normal(8, places, D, seed=2)
    dynamic, compiled = name in ("prefill", "blocks"), name in ("prefill", "speculative")
    args = (x, weight, states)
    check(torch_npu.npu_fused_causal_conv1d, args, fused, whole=True, dynamic=dynamic, compiled=compiled, **kwargs)

    def into_x(x, weight, states, **kwargs):
        y = fused(x, weight, states, **kwargs)
        taken = y.reshape(-1, D).abs().sum(1) > 0
        x.copy_(torch.where(taken.unsqueeze(1), y.reshape(-1, D), x.reshape(-1, D)).reshape(x.shape))

    check(torch_npu.npu_fused_causal_conv1d_v2, args, into_x, whole=True, dynamic=False, compiled=dynamic, **kwargs)


def test_prefill_and_decode_are_one_sequence() -> None:
    for dtype in FLOATING:
        x, weight = normal(1, 7, D, dtype=dtype), normal(4, D, dtype=dtype, seed=1)
        want = torch_npu.npu_fused_causal_conv1d(x, weight, torch.zeros(1, 3, D, dtype=dtype))
        states = torch.full((1, 3, D), 9.0, dtype=dtype)
        steps = [torch_npu.npu_fused_causal_conv1d(x[:, :4], weight, states)]
        steps += [torch_npu.npu_fused_causal_conv1d(x[:, t : t + 1], weight, states, run_mode=1) for t in range(4, 7)]
        torch.testing.assert_close(torch.cat(steps, 1), want)


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    x, weight, states = normal(4, D), normal(3, D), normal(8, 2, D)
    refused = [
        ((x, weight, states[:, :1]), {}, r"conv_states has 1 places, allowed are K - 1 = 2 and more"),
        (
            (x, weight[:, :2], states),
            {},
            r"weight has shape \[3, 2\] and conv_states \[8, 2, 5\], allowed are \[K, dim",
        ),
        ((x, weight, states), {"activation": "gelu"}, r"activation is 'gelu', allowed are 'None', 'silu' and 'swish'"),
        ((x, weight, states), {"run_mode": 2}, r"run_mode is 2, allowed are \[0, 1\]"),
        ((x, weight, states), {"conv_mode": "fast"}, r"conv_mode is 'fast', allowed is 'default'"),
        (
            (x, weight, states),
            {"initial_state_idx": ints(0)},
            r"block_idx_last_scheduled_token and initial_state_idx, ",
        ),
    ]
    for args, kwargs, text in refused:
        check_refused("npu_fused_causal_conv1d", text, *args, **kwargs)
    blocks = CASES["blocks"][2]
    args = (normal(11, D), weight, states)
    text = r"block_idx_first_scheduled_token asks for num_computed_tokens"
    check_refused("npu_fused_causal_conv1d", text, *args, **(blocks | {"num_computed_tokens": None}))
    text = r"allowed is one of block_idx_first_scheduled_token and num_accepted_tokens"
    check_refused("npu_fused_causal_conv1d", text, *args, **(blocks | {"num_accepted_tokens": ints(1, 1, 1)}))
    name = "npu_masked_causal_conv1d"
    check_refused(name, r"weight has shape \[3, 4\], allowed is \[K, H\]", normal(S, B, D), normal(3, 4))
    check_refused(name, r"mask has shape \[6, 3\], allowed is \[B, S\]", normal(S, B, D), weight, mask=MASK.t())
