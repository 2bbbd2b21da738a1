# SPDX-License-Identifier: Apache-2.0
"""Operators of src/torch/npu_ops/recurrent.cc, against the modules of torch."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, check_gradient, normal

T, B, I, H = 3, 2, 5, 4


def rows_of(weight: torch.Tensor, order: list[int]) -> torch.Tensor:
    """A weight of gates side by side as torch has it: gates above each other, in another order."""
    gates = weight.chunk(len(order), -1)
    return torch.cat([gates[i] for i in order], -1).t()


def lstm(x, weight, bias, mask, h, c, has_biases, layers, dropout, train, bidirectional, batch_first, flag, direction):
    w = rows_of(weight, [0, 2, 1, 3])
    b = rows_of(bias, [0, 2, 1, 3]) if has_biases else None
    steps = list(x.unbind(1 if batch_first else 0))
    h, c = h[0], c[0]
    out = []
    for step in reversed(steps) if direction else steps:
        gates = torch.nn.functional.linear(torch.cat([step, h], 1), w, b).chunk(4, 1)
        i, f, o, j = *(gates[k].sigmoid() for k in (0, 1, 3)), gates[2].tanh()
        h, c = torch.lstm_cell(step, (h, c), w[:, :I], w[:, I:], b)
        out.append((h, c, i, j, f, o, c.tanh()))
    out = out[::-1] if direction else out
    results = [torch.stack(result) for result in zip(*out, strict=True)]
    return results[0].transpose(0, 1) if batch_first else results[0], *results


@pytest.mark.parametrize(("batch_first", "direction", "has_biases"), [(False, False, True), (True, True, False)])
def test_lstm(batch_first: bool, direction: bool, has_biases: bool) -> None:
    x = normal(B, T, I) if batch_first else normal(T, B, I)
    state = (normal(1, B, H, seed=3), normal(1, B, H, seed=4))
    args = (x, normal(I + H, 4 * H, seed=1), normal(4 * H, seed=2), torch.zeros(0), *state)
    rest = (has_biases, 1, 0.0, True, False, batch_first, False, direction)

    check(torch_npu.npu_lstm, (*args, *rest), lstm, dynamic=False)
    leaves = (args[0], args[1], *state)
    check_gradient(
        lambda x, w, h, c: torch_npu.npu_lstm(x, w, args[2].to(x.device), args[3].to(x.device), h, c, *rest),
        leaves,
        lambda x, w, h, c: lstm(x, w, args[2].double(), None, h, c, *rest),
    )


def test_lstm_cell() -> None:
    def reference(x, w_ih, w_hh, h, c, b_ih=None, b_hh=None):
        linear = torch.nn.functional.linear
        gates = (linear(x, w_ih, b_ih) + linear(h, w_hh, b_hh)).chunk(4, 1)
        h, c = torch.lstm_cell(x, (h, c), w_ih, w_hh, b_ih, b_hh)
        return h, h, c, gates[0].sigmoid(), gates[2].tanh(), gates[1].sigmoid(), gates[3].sigmoid(), c.tanh()

    args = (
        normal(B, I),
        normal(4 * H, I, seed=1),
        normal(4 * H, H, seed=2),
        normal(B, H, seed=3),
        normal(B, H, seed=4),
    )
    check(torch_npu.npu_lstm_cell, args, reference)
    biases = (normal(4 * H, seed=5), normal(4 * H, seed=6))
    check(torch_npu.npu_lstm_cell, (*args, *biases), reference)
    check_gradient(torch_npu.npu_lstm_cell, (*args, *biases), reference)


@pytest.mark.parametrize("batch_first", [False, True])
def test_gru(batch_first: bool) -> None:
    def reference(x, h, w_x, w_h, b_x, b_h, lengths, has_biases, *_):
        h, out = h[0], []
        for step in x.unbind(1 if batch_first else 0):
            from_x, from_h = (step @ w_x + b_x).chunk(3, 1), (h @ w_h + b_h).chunk(3, 1)
            reset, update = (from_x[0] + from_h[0]).sigmoid(), (from_x[1] + from_h[1]).sigmoid()
            new = (from_x[2] + reset * from_h[2]).tanh()
            last, h = h, torch.gru_cell(step, h, w_x.t(), w_h.t(), b_x, b_h)
            torch.testing.assert_close(h, (1 - update) * new + update * last)
            out.append((h, update, reset, new, from_h[2]))
        results = [torch.stack(result) for result in zip(*out, strict=True)]
        return results[0].transpose(0, 1) if batch_first else results[0], *results

    x = normal(B, T, I) if batch_first else normal(T, B, I)
    weights = (normal(I, 3 * H, seed=1), normal(H, 3 * H, seed=2), normal(3 * H, seed=3), normal(3 * H, seed=4))
    lengths = torch.full((B,), T, dtype=torch.int32)
    args = (x, normal(1, B, H, seed=5), *weights, lengths, True, 1, 0.0, True, False, batch_first)
    check(torch_npu.npu_gru, args, reference, dynamic=False)
    check_gradient(torch_npu.npu_gru, args, reference)


def test_errors() -> None:
    state = normal(1, B, H)
    args = (normal(T, B, I), normal(I + H, 4 * H), normal(4 * H), torch.zeros(0), state, state)
    with pytest.raises(
        RuntimeError, match=r"npu_lstm: num_layers is 2 and bidirectional False, allowed are 1 and False"
    ):
        torch_npu.npu_lstm(*args, True, 2, 0.0, True, False, False, False, False)
    with pytest.raises(RuntimeError, match=r"npu_lstm: flag_seq is True, allowed is False"):
        torch_npu.npu_lstm(*args, True, 1, 0.0, True, False, False, True, False)
