# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/recurrent/recurrent*.cc, against the modules of torch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from tests.python.device.npu_operators import check, check_gradient, normal

T, B, I, H = 3, 2, 5, 4


def rows_of(weight: torch.Tensor, order: list[int]) -> torch.Tensor:
    """Returns a weight with gates side by side in the form of torch: with gates above each other, in another order."""
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
def test_an_lstm_layer_is_that_of_the_reference(batch_first: bool, direction: bool, has_biases: bool) -> None:
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
        results = h, h, c, gates[0].sigmoid(), gates[2].tanh(), gates[1].sigmoid(), gates[3].sigmoid(), c.tanh()
        return [x[None] for x in results]

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
    with_steps = [x[None] for x in args[3:]]  # as the operator gives states
    for got, want in zip(*(torch_npu.npu_lstm_cell(*args[:3], *s) for s in (with_steps, args[3:])), strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_gru_layer_is_that_of_the_reference(batch_first: bool) -> None:
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


def gradients(forward, inputs, results, grads):
    """Returns gradients of ``inputs``, given the gradients ``grads`` of the results that ``results`` names."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    out = forward(*leaves)
    grads = [None if g is None else g.double() for g in grads]
    total = sum((out[k] * g).sum() for k, g in zip(results, grads, strict=True) if g is not None)
    return torch.autograd.grad(total, leaves)


@pytest.mark.parametrize("grads", [(True, True, True), (True, False, False), (False, True, False)])
def test_lstm_backward(grads: tuple[bool, ...]) -> None:
    rest = (True, 1, 0.0, True, False, False, False, False)

    def reference(*args):
        x, w, b, h, c = args[3:8]
        forward = lambda x, w, b, h, c: lstm(x, w, b, None, h, c, *rest)  # noqa: E731
        return gradients(forward, (x, w, b, h, c), (0, 1, 2), args[:3])

    inputs = (normal(T, B, I), normal(I + H, 4 * H, seed=1), normal(4 * H, seed=2))
    state = (normal(1, B, H, seed=3), normal(1, B, H, seed=4))
    results = torch_npu.npu_lstm(*inputs, torch.zeros(0), *state, *rest)
    given = [normal(T, B, H, seed=i + 5) if grad else None for i, grad in enumerate(grads)]
    check(torch_npu.npu_lstm_backward, (*given, *inputs, *state, *results), reference, dynamic=False)


def test_lstm_cell_backward() -> None:
    def reference(*args):
        def forward(x, w_ih, w_hh, b_ih, b_hh, h, c):
            h, c = torch.lstm_cell(x, (h, c), w_ih, w_hh, b_ih, b_hh)
            return h[None], h[None], c[None]

        x, w_ih, w_hh, h, c = args[3:8]
        biases = (torch.zeros(4 * H).double(), torch.zeros(4 * H).double())
        return gradients(forward, (x, w_ih, w_hh, *biases, h, c), (0, 1, 2), args[:3])

    sizes = ((B, I), (4 * H, I), (4 * H, H), (B, H), (B, H))
    inputs = [normal(*size, seed=i) for i, size in enumerate(sizes)]
    results = torch_npu.npu_lstm_cell(*inputs)
    for grads in ((0, 1, 2), (0, 2), (1,)):
        given = [normal(1, B, H, seed=i + 5) if i in grads else None for i in range(3)]
        some = len(grads) == 3
        check(torch_npu.npu_lstm_cell_backward, (*given, *inputs, *results), reference, dynamic=some, compiled=some)


def test_gru_backward() -> None:
    def reference(grad_y, grad_h, x, w_x, w_h, b_x, b_h, lengths, h, *_):
        def forward(w_x, w_h, x, b_x, b_h, h):
            y = torch._VF.gru(x, h, [w_x.t(), w_h.t(), b_x, b_h], True, 1, 0.0, True, False, False)[0]
            return y, y

        return gradients(forward, (w_x, w_h, x, b_x, b_h, h), (0, 1), (grad_y, grad_h))

    weights = (normal(I, 3 * H, seed=1), normal(H, 3 * H, seed=2), normal(3 * H, seed=3), normal(3 * H, seed=4))
    x, h, lengths = normal(T, B, I), normal(1, B, H, seed=5), torch.full((B,), T, dtype=torch.int32)
    results = torch_npu.npu_gru(x, h, *weights, lengths, True, 1, 0.0, True, False, False)
    args = (normal(T, B, H, seed=6), normal(T, B, H, seed=7), x, *weights, lengths, h, *results)
    check(torch_npu.npu_gru_backward, args, reference, dynamic=False)


LENGTHS = torch.tensor([3, 2, 2, 1])


def packed(x: torch.Tensor) -> PackedSequence:
    """Packs steps [T, B, ...] of sequences that are as long as LENGTHS say."""
    return pack_padded_sequence(x, LENGTHS)


@pytest.mark.parametrize("direction", [False, True])
def test_lstm_data(direction: bool) -> None:
    rest = (True, 1, 0.0, True, False, False, False, direction)

    def reference(data, batch_sizes, weight, bias, mask, h, c, *_):
        padded, _ = pad_packed_sequence(PackedSequence(data, batch_sizes))
        out = [torch.zeros(3, 4, H, dtype=data.dtype) for _ in range(8)]
        for sequence, length in enumerate(LENGTHS):
            one = slice(sequence, sequence + 1)
            results = lstm(padded[:length, one], weight, bias, mask, h[:, one], c[:, one], *rest)
            for result, its in zip(out, results, strict=True):
                result[:length, one] = its
        return [packed(result).data for result in out]

    data, sizes, *_ = packed(normal(3, 4, I))
    weights = (normal(I + H, 4 * H, seed=1), normal(4 * H, seed=2))
    state = (normal(1, 4, H, seed=3), normal(1, 4, H, seed=4))
    args = (data, sizes, *weights, torch.zeros(0, dtype=torch.int32), *state, *rest)
    check(torch_npu.npu_lstm_data, args, reference, whole=True)
    check_gradient(torch_npu.npu_lstm_data, args, reference)

    def backward(*args):
        forward = lambda x, w, b, h, c: reference(x, sizes, w, b, None, h, c)  # noqa: E731
        return gradients(forward, (args[3], *args[5:9]), (0, 1, 2), args[:3])

    grads = [normal(*data.shape[:1], H, seed=i + 5) for i in range(3)]
    results = torch_npu.npu_lstm_data(*args)
    args = (*grads, data, sizes, *weights, *state, *results, direction)
    check(torch_npu.npu_lstm_data_backward, args, backward, whole=True)


def one_direction(kind, x, state, w_ih, w_hh, b_ih, b_hh, reverse):
    """Computes one sequence [L, I]. Returns its last state, and the results of all steps in the order of the
    operators."""
    linear, out = torch.nn.functional.linear, []
    for step in x.flip(0) if reverse else x:
        of_x, of_h = linear(step, w_ih, b_ih), linear(state[0], w_hh, b_hh)
        if kind == "lstm":
            i, f, j, o = (of_x + of_h).chunk(4)
            i, f, j, o = i.sigmoid(), f.sigmoid(), j.tanh(), o.sigmoid()
            c = f * state[1] + i * j
            state = (o * c.tanh(), c)
            out.append((i, j, f, o, state[0], c, c.tanh()))
        else:
            (r, z, n), (r_h, z_h, n_h) = of_x.chunk(3), of_h.chunk(3)
            r, z = (r + r_h).sigmoid(), (z + z_h).sigmoid()
            n = (n + r * n_h).tanh()
            state = ((1 - z) * n + z * state[0],)
            out.append((r, z, n, n_h, state[0]))
    out = [torch.stack(result[::-1] if reverse else result) for result in zip(*out, strict=True)]
    return state, out


def layers(kind, x, hx, params, has_biases, num_layers, dropout, train, bidirectional, *, batch_first=False, **kwargs):
    """Computes one sequence after the other, as lists of steps."""
    sizes = kwargs.get("batch_sizes")
    if sizes is not None:
        padded, lengths = pad_packed_sequence(PackedSequence(x, sizes))
    else:
        padded = x.transpose(0, 1) if batch_first else x
        lengths = [padded.shape[0]] * padded.shape[1]
    sequences = [padded[:length, b] for b, length in enumerate(lengths)]
    directions, each = 2 if bidirectional else 1, 4 if has_biases else 2
    last, results = [], []
    for layer in range(num_layers):
        new = [[] for _ in sequences]
        for d in range(directions):
            index = layer * directions + d
            weights = params[index * each : (index + 1) * each] + [None] * (4 - each)
            runs = [
                one_direction(kind, x, [state[index, b] for state in hx], *weights, reverse=d == 1)
                for b, x in enumerate(sequences)
            ]
            for b, (_, out) in enumerate(runs):
                new[b].append(out[4])  # h
            last.append([torch.stack(state) for state in zip(*(state for state, _ in runs), strict=True)])
            results.append([joined(result, sizes) for result in zip(*(out for _, out in runs), strict=True)])
        sequences = [torch.cat(outs, -1) for outs in new]
    y = joined(sequences, sizes)
    y = y.transpose(0, 1) if batch_first and sizes is None else y
    stacked = [[torch.stack(result) for result in zip(*lists, strict=True)] for lists in (last, results)]
    return y, *stacked[0], *stacked[1]


def joined(sequences, sizes):
    padded = torch.nn.utils.rnn.pad_sequence(list(sequences))
    return padded if sizes is None else packed(padded).data


OPS = {
    "lstm": (torch_npu._lstm_npu, torch_npu._lstm_npu_backward),
    "gru": (torch_npu._gru_npu, torch_npu._gru_npu_backward),
}
LAYERS = [
    {"num_layers": 1, "bidirectional": False, "has_biases": True, "batch_first": False, "is_packed": False},
    {"num_layers": 2, "bidirectional": True, "has_biases": True, "batch_first": True, "is_packed": False},
    {"num_layers": 2, "bidirectional": True, "has_biases": False, "batch_first": False, "is_packed": True},
]


@pytest.mark.parametrize("kind", OPS)
@pytest.mark.parametrize("case", LAYERS)
def test_stacked_layers_and_gradients_are_those_of_the_reference(kind: str, case: dict[str, Any]) -> None:
    forward_op, backward_op = OPS[kind]
    states = 2 if kind == "lstm" else 1
    module = getattr(torch.nn, kind.upper())(
        I, H, case["num_layers"], bias=case["has_biases"], bidirectional=case["bidirectional"]
    )
    params = [normal(*p.shape, seed=i + 20) * 0.5 for i, p in enumerate(module.parameters())]
    x = normal(4, 3, I) if case["batch_first"] else normal(3, 4, I)
    kwargs = {"batch_first": case["batch_first"]}
    if case["is_packed"]:
        x, kwargs["batch_sizes"], *_ = packed(x)
    count = case["num_layers"] * (1 + case["bidirectional"])
    hx = [normal(count, 4, H, seed=i + 3) for i in range(states)]
    rest = (case["has_biases"], case["num_layers"], 0.0, True, case["bidirectional"])

    def reference(x, hx, params, *rest, **kwargs):
        return layers(kind, x, hx if kind == "lstm" else [hx], params, *rest, **kwargs)

    own = hx if kind == "lstm" else hx[0]
    whole = case["is_packed"]
    compiled = case["batch_first"] == (kind == "lstm")
    check(forward_op, (x, own, params, *rest), reference, dynamic=False, whole=whole, compiled=compiled, **kwargs)
    check_gradient(forward_op, (x, own, params, *rest), reference, **kwargs)

    def backward(*args, **kwargs):
        grads, (x, hx, params) = args[: 1 + states], args[1 + states : 4 + states]
        leaves = [x, *(hx if kind == "lstm" else [hx]), *params]

        def forward(x, *others):
            state, params = list(others[:states]), list(others[states:])
            return reference(x, state if kind == "lstm" else state[0], params, *rest, **kwargs)

        x, *others = gradients(forward, leaves, range(1 + states), grads)
        return x, others[:states] if kind == "lstm" else others[0], others[states:]

    y, *results = forward_op(x, own, params, *rest, **kwargs)
    grads = [normal(*result.shape, seed=i + 9) for i, result in enumerate([y, *results[:states]])]
    args = (*grads, x, own, params, *results[states:], *rest)
    # An operator that returns lists and is called whole runs in Python between captured tasks.
    check(backward_op, args, backward, dynamic=False, compiled=compiled and not whole, **kwargs)


def test_dropout_between_layers() -> None:
    module = torch.nn.LSTM(I, H, 2)
    params = [p.detach() for p in module.parameters()]
    args = (normal(T, B, I), [normal(2, B, H), normal(2, B, H)], params)
    torch.manual_seed(1)
    got = torch_npu._lstm_npu(*args, True, 2, 0.5, True, False)
    torch.manual_seed(1)
    kept = torch_npu._lstm_npu(*args, True, 2, 0.0, True, False)
    dropped = torch.dropout(got[7][0], 0.5, True)
    assert torch.equal(got[7][0], kept[7][0])
    second = torch_npu._lstm_npu(dropped, [x[1:] for x in args[1]], params[4:], True, 1, 0.0, True, False)
    torch.testing.assert_close(got[0], second[0])
    with pytest.raises(RuntimeError, match=r"_lstm_npu_backward: dropout is 0.5, allowed is 0: it is not known what"):
        torch_npu._lstm_npu_backward(*got[:3], *args, *got[3:], True, 2, 0.5, True, False)


def test_unsupported_forms_and_wrong_sizes_are_refused() -> None:
    state = normal(1, B, H)
    args = (normal(T, B, I), normal(I + H, 4 * H), normal(4 * H), torch.zeros(0), state, state)
    with pytest.raises(
        RuntimeError, match=r"npu_lstm: num_layers is 2 and bidirectional False, allowed are 1 and False"
    ):
        torch_npu.npu_lstm(*args, True, 2, 0.0, True, False, False, False, False)
    with pytest.raises(RuntimeError, match=r"npu_lstm: flag_seq is True, allowed is False"):
        torch_npu.npu_lstm(*args, True, 1, 0.0, True, False, False, True, False)
    with pytest.raises(RuntimeError, match=r"_lstm_npu: params has 2 tensors, allowed are 8, 4 of each layer and dir"):
        torch_npu._lstm_npu(args[0], [state, state], [normal(4 * H, I), normal(4 * H, H)], True, 2, 0.0, True, False)
    with pytest.raises(RuntimeError, match=r"_lstm_npu: hx has 1 tensors, allowed are h and c"):
        torch_npu._lstm_npu(args[0], [state], [], False, 1, 0.0, True, False)
    with pytest.raises(RuntimeError, match=r"_gru_npu: num_layers is 0, allowed are 1 and more"):
        torch_npu._gru_npu(args[0], state, [], False, 0, 0.0, True, False)
    with pytest.raises(RuntimeError, match=r"npu_lstm_data: batch_sizes are \[2, 3\], allowed are numbers that do not"):
        data_args = (normal(5, I), torch.tensor([2, 3]), *args[1:])
        torch_npu.npu_lstm_data(*data_args, True, 1, 0.0, True, False, False, False, False)
    with pytest.raises(RuntimeError, match=r"npu_lstm_data: batch_sizes sum up to 3, and input has 5 rows"):
        data_args = (normal(5, I), torch.tensor([2, 1]), *args[1:])
        torch_npu.npu_lstm_data(*data_args, True, 1, 0.0, True, False, False, False, False)
