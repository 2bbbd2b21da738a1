# SPDX-License-Identifier: Apache-2.0
"""Attention for training: src/device/npu_ops/attention/fusion_attention*.cc."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.python.device.attention_reference import attention, by_heads, from_heads, seen, starts_and_ends
from tests.python.device.compiled_calls import check_views_compiled
from tests.python.device.npu_operators import (
    FLOATING,
    check,
    check_alike,
    check_close,
    check_fake,
    check_gradient,
    exact,
    normal,
)

LAYOUTS = ("BSH", "SBH", "BSND", "BNSD")
SCALE = 0.3


def inputs(
    layout: str, heads: int, key_heads: int, rows: int = 5, columns: int = 7, dtype=torch.float32, size: int = 8
):
    def one(n: int, length: int, seed: int) -> torch.Tensor:
        return from_heads(normal(2, n, length, size, dtype=dtype, seed=seed), layout).contiguous()

    return one(heads, rows, 1), one(key_heads, columns, 2), one(key_heads, columns, 3)


def key_heads_of(key: torch.Tensor, layout: str, size: int) -> int:
    return {"BSH": key.shape[-1] // size, "SBH": key.shape[-1] // size, "BNSD": key.shape[1]}.get(layout, key.shape[-2])


def fusion_attention(
    query, key, value, head_num, input_layout, pse=None, padding_mask=None, atten_mask=None, scale=1.0, keep_prob=1.0,
    pre_tockens=2**31 - 1, next_tockens=2**31 - 1, prefix=None, actual_seq_qlen=None, actual_seq_kvlen=None,
    sparse_mode=0, sink=None, dropout_mask=None, **kwargs,
):  # fmt: skip
    if input_layout == "TND":
        parts, first = [], 0
        ends = list(zip(starts_and_ends(actual_seq_qlen), starts_and_ends(actual_seq_kvlen), strict=True))
        for index, ((a, b), (c, d)) in enumerate(ends):
            mode = sparse_mode
            if mode == 7:
                mode = 4 if index == len(ends) - 1 else 3
            if mode == 8:
                mode = 4 if index == 0 else 2
            number = head_num * (b - a) * (d - c)
            dropped = None if dropout_mask is None else dropout_mask.flatten()[first : first + number]
            first += number
            parts.append(
                fusion_attention(
                    *(x.transpose(0, 1)[None] for x in (query[a:b], key[c:d], value[c:d])), head_num, "BNSD",
                    None if pse is None else pse[index : index + 1, :, : b - a, : d - c], None,
                    None if atten_mask is None else atten_mask[: b - a, : d - c], scale, keep_prob, pre_tockens,
                    next_tockens, None if prefix is None else prefix[index : index + 1], None, None, mode, sink,
                    dropped,
                )
            )  # fmt: skip
        result, maxima, sums = (torch.cat([part[i][0] for part in parts], 1).transpose(0, 1) for i in range(3))
        return result, maxima, sums, torch.empty(0), None, None, None
    q = by_heads(query, input_layout, head_num)
    heads = key_heads_of(key, input_layout, q.shape[3])
    k, v = by_heads(key, input_layout, heads), by_heads(value, input_layout, heads)
    rows, columns = q.shape[2], k.shape[2]
    visible = None
    if sparse_mode >= 2:
        prefixes = prefix or [0]
        visible = torch.stack([seen(rows, columns, sparse_mode, pre_tockens, next_tockens, n) for n in prefixes])[
            :, None
        ]
    elif atten_mask is not None:
        visible = ~atten_mask.bool() & (seen(rows, columns, 0, pre_tockens, next_tockens) | (sparse_mode == 1))
    factors = None if dropout_mask is None else dropout_mask.view(*q.shape[:3], columns) / keep_prob
    bias = None if pse is None else pse * scale
    result, maxima, sums = attention(q, k, v, scale, bias=bias, visible=visible, sink=sink, factors=factors)
    eight = [x.expand(-1, -1, -1, 8) for x in (maxima, sums)]
    return from_heads(result, input_layout), *eight, torch.empty(0), None, None, None


def check_both(args: Any, gradient: bool = True, compiled: bool = False, **kwargs: Any) -> None:
    check(torch_npu.npu_fusion_attention, args, fusion_attention, compiled=compiled, dynamic=compiled, **kwargs)
    if gradient:
        check_gradient(torch_npu.npu_fusion_attention, args, fusion_attention, **kwargs)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_attention_is_that_of_the_reference_in_every_layout(layout: str) -> None:
    check_both((*inputs(layout, 4, 2), 4, layout), compiled=layout == "BSH", scale=SCALE)


@pytest.mark.parametrize("dtype", FLOATING)
def test_attention_is_that_of_the_reference_in_every_type(dtype: torch.dtype) -> None:
    check_both((*inputs("BNSD", 2, 2, dtype=dtype), 2, "BNSD"), gradient=False, scale=SCALE)


@pytest.mark.parametrize(("rows", "columns"), [(5, 7), (6, 4), (5, 5)])
@pytest.mark.parametrize("mode", [2, 3, 4])
def test_sparse_modes(mode: int, rows: int, columns: int) -> None:
    given = {"atten_mask": torch.ones(2048, 2048, dtype=torch.bool).triu(1), "sparse_mode": mode}
    if mode == 4:
        given |= {"pre_tockens": 2, "next_tockens": 1}
    args = (*inputs("BSND", 4, 2, rows, columns), 4, "BSND")
    check_both(args, gradient=rows == 6, scale=SCALE, **given)


@pytest.mark.parametrize("shape", [(5, 7), (1, 1, 5, 7), (2, 1, 5, 7), (2, 4, 5, 7)])
@pytest.mark.parametrize("mode", [0, 1])
def test_masks_of_every_shape_are_applied(mode: int, shape: tuple[int, ...]) -> None:
    mask = normal(*shape) > 0.5
    given = {"atten_mask": mask, "sparse_mode": mode, "pre_tockens": 3, "next_tockens": 2}
    check_both((*inputs("BNSD", 4, 2), 4, "BNSD"), gradient=shape == (5, 7), scale=SCALE, **given)


def test_bands_without_a_mask_mean_nothing() -> None:
    args = (*inputs("BNSD", 2, 2), 2, "BNSD")
    result = torch_npu.npu_fusion_attention(*args, pre_tockens=1, next_tockens=0)
    check_close(result[0], torch_npu.npu_fusion_attention(*args)[0])


@pytest.mark.parametrize("mode", [5, 6])
def test_keys_of_a_prefix_are_seen_by_all_rows(mode: int) -> None:
    mask = torch.ones(3072, 2048, dtype=torch.bool)
    check_both((*inputs("BNSD", 4, 2), 4, "BNSD"), sparse_mode=mode, prefix=[4, 6], atten_mask=mask, scale=SCALE)


def test_bias_and_sink() -> None:
    args = (*inputs("BNSD", 4, 2), 4, "BNSD", normal(2, 4, 5, 7, seed=9))
    check_both(args, scale=SCALE, sink=normal(4, seed=8))
    check_both((*args[:5], normal(1, 4, 1, 7, seed=9)), scale=SCALE)


QUERY_ENDS, KEY_ENDS = [3, 3, 9], [4, 9, 14]


def packed(heads: int = 4, key_heads: int = 2) -> tuple[torch.Tensor, ...]:
    return normal(9, heads, 8), normal(14, key_heads, 8, seed=1), normal(14, key_heads, 8, seed=2)


@pytest.mark.parametrize("mode", [0, 2, 3, 4, 6, 7, 8])
def test_packed_sequences_do_not_see_each_other(mode: int) -> None:
    given: dict[str, Any] = {"actual_seq_qlen": QUERY_ENDS, "actual_seq_kvlen": KEY_ENDS, "sparse_mode": mode}
    if mode == 0:
        given |= {"atten_mask": normal(6, 5) > 0.3, "pse": normal(3, 4, 6, 5, seed=4)}
    if mode in (4, 7, 8):
        given |= {"pre_tockens": 2, "next_tockens": 0}
    if mode == 6:
        given["prefix"] = [1, 2, 3]
    check_both((*packed(), 4, "TND"), gradient=mode in (0, 3), compiled=mode == 3, scale=SCALE, **given)


@pytest.mark.parametrize("form", ["bytes", "bits"])
def test_dropout_masks(form: str) -> None:
    kept = normal(2, 4, 5, 7) > -0.5
    mask = kept
    if form == "bits":
        flat = torch.nn.functional.pad(kept.flatten(), (0, 384 - kept.numel())).view(-1, 8).to(torch.uint8)
        mask = (flat << torch.arange(8, dtype=torch.uint8)).sum(-1).to(torch.uint8)

    def reference(*args: Any, dropout_mask: torch.Tensor, **kwargs: Any) -> Any:
        return fusion_attention(*args, dropout_mask=kept, **kwargs)

    args = (*inputs("BNSD", 4, 2), 4, "BNSD")
    given = {"keep_prob": 0.7, "dropout_mask": mask, "scale": SCALE}
    check(torch_npu.npu_fusion_attention, args, reference, compiled=form == "bits", **given)
    check_gradient(torch_npu.npu_fusion_attention, args, reference, **given)


def ones_to_see_dropout(layout: str = "BNSD") -> tuple[Any, ...]:
    """Returns arguments with equal scores and identity matrices as values, so that each result is one weight."""
    query = torch.zeros(2, 3, 40, 50)
    return query, torch.zeros(2, 3, 50, 50), torch.eye(50).expand(2, 3, 50, 50).contiguous(), 3, layout


def test_dropout_of_a_seed() -> None:
    first, second = (torch_npu.npu_fusion_attention(*ones_to_see_dropout(), keep_prob=0.8, seed=7) for _ in range(2))
    assert torch.equal(first[0], second[0])
    other = torch_npu.npu_fusion_attention(*ones_to_see_dropout(), keep_prob=0.8, seed=8)
    assert (first[4:], other[4:]) == ((7, 0, 12000), (8, 0, 12000))
    for result in (first[0], other[0]):
        assert set(result.unique().mul(40).round().tolist()) == {0, 1}  # a weight that is kept is 1 / 50 / 0.8 = 1 / 40
        assert abs((result > 0).float().mean().item() - 0.8) < 0.02
    assert 0.25 < ((first[0] > 0) != (other[0] > 0)).float().mean().item() < 0.4  # 2 * 0.8 * 0.2 is expected


def test_dropout_of_the_generator() -> None:
    torch.manual_seed(3)
    first = torch_npu.npu_fusion_attention(*ones_to_see_dropout(), keep_prob=0.5)
    second = torch_npu.npu_fusion_attention(*ones_to_see_dropout(), keep_prob=0.5)
    torch.manual_seed(3)
    again = torch_npu.npu_fusion_attention(*ones_to_see_dropout(), keep_prob=0.5)
    assert torch.equal(first[0], again[0]) and not torch.equal(first[0], second[0])
    assert first[4:6] == again[4:6] == (3, 0) and second[4] == 3 and second[5] != 0
    for one in (first, second):
        named = {"seed": one[4], "offset": one[5]}
        seeded = torch_npu.npu_fusion_attention(*ones_to_see_dropout(), keep_prob=0.5, **named)
        assert torch.equal(seeded[0], one[0]) and seeded[4:] == one[4:]


def test_dropout_of_a_generator_with_seed_0() -> None:
    """A gradient does not take seed 0 with offset 0, which stand for no seed."""
    torch.manual_seed(0)
    out = torch_npu.npu_fusion_attention(*ones_to_see_dropout(), keep_prob=0.5)
    named = {"seed": out[4], "offset": out[5], "numels": out[6]}
    query, *rest = ones_to_see_dropout()
    torch_npu.npu_fusion_attention_grad(query, *rest[:2], torch.ones(2, 3, 40, 50), *rest[2:], keep_prob=0.5, **named)
    third = torch_npu.npu_fusion_attention_v3(*ones_to_see_dropout(), keep_prob=0.5)
    again = torch_npu.npu_fusion_attention(*ones_to_see_dropout(), keep_prob=0.5, seed=0, offset=int(third[5]))
    assert int(third[4]) == 0 and torch.equal(again[0], third[0])


def gradients(args: tuple[Any, ...], op: Any = torch_npu.npu_fusion_attention, **kwargs: Any) -> Any:
    """Returns the results of ``op``, the gradient of the first one, and the gradients that autograd computes."""
    leaves = [x.clone().requires_grad_() for x in args[:3]]
    extra = {
        name: kwargs[name].clone().requires_grad_()
        for name in ("pse", "sink", "query_rope", "key_rope")
        if name in kwargs
    }
    out = op(*leaves, *args[3:], **{**kwargs, **extra})
    dy = normal(*out[0].shape, seed=11)
    out[0].backward(dy)
    return out, dy, [x.grad for x in leaves], {name: x.grad for name, x in extra.items()}


@pytest.mark.parametrize("case", ["plain", "packed", "dropout", "bias and sink"])
def test_gradients_of_saved_statistics(case: str) -> None:
    args, given = (*inputs("BSND", 4, 2), 4, "BSND"), {"scale": SCALE, "sparse_mode": 3}
    if case == "packed":
        args = (*packed(), 4, "TND")
        given |= {"actual_seq_qlen": QUERY_ENDS, "actual_seq_kvlen": KEY_ENDS, "pse": normal(3, 4, 6, 5, seed=4)}
    if case == "dropout":
        given["keep_prob"] = 0.6
    if case == "bias and sink":
        given |= {"pse": normal(1, 4, 5, 7, seed=4), "sink": normal(4, seed=5)}
    forward, dy, (dq, dk, dv), extra = gradients(args, **given)
    saved = {"softmax_max": forward[1], "softmax_sum": forward[2], "attention_in": forward[0].detach()}
    numbers = dict(zip(("seed", "offset", "numels"), forward[4:], strict=True))
    given["scale_value"] = given.pop("scale")
    for kept in (saved, {}):
        got = torch_npu.npu_fusion_attention_grad(*args[:3], dy, *args[3:], **given, **kept, **numbers)
        for g, w in zip(got, (dq, dk, dv, extra.get("pse"), extra.get("sink")), strict=True):
            assert g.numel() == 0 if w is None else torch.allclose(g, w, rtol=1e-4, atol=1e-5)


def test_version_2() -> None:
    args = (*inputs("BSND", 4, 2), 4, "BSND")
    ropes = {"query_rope": normal(2, 5, 4, 4, seed=6), "key_rope": normal(2, 7, 2, 4, seed=7)}
    given = {"scale": SCALE, "sparse_mode": 3} | ropes

    def reference(query, key, value, heads, layout, query_rope, key_rope, **kwargs):
        query, key = torch.cat([query, query_rope], -1), torch.cat([key, key_rope], -1)
        return fusion_attention(query, key, value, heads, layout, **kwargs)

    check(torch_npu.npu_fusion_attention_v2, args, reference, compiled=False, **given)
    forward, dy, wanted, extra = gradients(args, torch_npu.npu_fusion_attention_v2, **given)
    given["scale_value"] = given.pop("scale")
    got = torch_npu.npu_fusion_attention_grad_v2(
        *args[:3],
        dy,
        *args[3:],
        **given,
        softmax_max=forward[1],
        softmax_sum=forward[2],
        attention_in=forward[0].detach(),
    )
    for g, w in zip(got, [*wanted, None, extra["query_rope"], extra["key_rope"], None], strict=True):
        assert g.numel() == 0 if w is None else torch.allclose(g, w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pse_type", [0, 2, 3])
def test_kinds_of_bias(pse_type: int) -> None:
    args = inputs("BNSD", 4, 2)
    slopes = normal(2, 4, seed=4).abs()
    far = (torch.arange(5)[:, None] + 2 - torch.arange(7)).abs()
    bias = {0: normal(2, 4, 5, 7, seed=5), 2: -slopes[..., None, None] * far, 3: -slopes[..., None, None] * far.sqrt()}
    pse = bias[0] if pse_type == 0 else slopes
    got = torch_npu.npu_fusion_attention_v2(*args, 4, "BNSD", pse=pse, pse_type=pse_type, q_start_idx=[2], scale=SCALE)
    check_close(got[0], attention(*exact(args), SCALE, bias=bias[pse_type].double())[0])


def test_version_3() -> None:
    def reference(*args: Any, **kwargs: Any) -> Any:
        ends = {name: kwargs.pop(name).tolist() for name in ("actual_seq_qlen", "actual_seq_kvlen")}
        return *fusion_attention(*args, **kwargs, **ends)[:4], torch.zeros(1), torch.zeros(1)

    args = (*packed(), 4, "TND")
    ends = {"actual_seq_qlen": torch.tensor(QUERY_ENDS), "actual_seq_kvlen": torch.tensor(KEY_ENDS)}
    check(torch_npu.npu_fusion_attention_v3, args, reference, whole=True, scale=SCALE, sparse_mode=3, **ends)
    check_gradient(torch_npu.npu_fusion_attention_v3, args, reference, scale=SCALE, sparse_mode=3, **ends)


def test_zeros_behind_ends_are_empty_sequences() -> None:
    want = torch_npu.npu_fusion_attention(
        *packed(), 4, "TND", actual_seq_qlen=QUERY_ENDS, actual_seq_kvlen=KEY_ENDS, scale=SCALE
    )
    ends = {"actual_seq_qlen": [*QUERY_ENDS, 0, 0], "actual_seq_kvlen": [*KEY_ENDS, 0, 0]}
    got = torch_npu.npu_fusion_attention(*packed(), 4, "TND", scale=SCALE, **ends)
    for one, other in zip(got[:3], want[:3], strict=True):
        check_close(one, other)


def test_lengths_from_the_host() -> None:
    ends = torch.tensor(QUERY_ENDS), torch.tensor(KEY_ENDS)

    def call(query, key, value, query_ends, key_ends):
        return torch_npu.npu_fusion_attention_v3(
            query, key, value, 4, "TND", actual_seq_qlen=query_ends, actual_seq_kvlen=key_ends
        )[0]

    want = call(*packed(), *ends)
    on_npu = [x.npu() for x in packed()]
    with torch.no_grad():
        compiled = torch.compile(call, backend="npugraph_ex", fullgraph=True)
        for run in (call, compiled):
            got = run(*on_npu, *ends)
            assert got.device.type == "npu"
            check_close(got.cpu(), want)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_gradients_of_version_3_in_graphs(device: str, dynamic: bool) -> None:
    ends = torch.tensor(QUERY_ENDS), torch.tensor(KEY_ENDS)
    packed_call = {"actual_seq_qlen": ends[0], "actual_seq_kvlen": ends[1], "sparse_mode": 3}
    more = {"pse": normal(1, 4, 5, 7, seed=4), "sink": normal(4, seed=5), "atten_mask": normal(5, 7, seed=6) > 0.5}
    calls = [((*packed(), 4, "TND"), packed_call), ((*inputs("BSND", 4, 2), 4, "BSND"), more)]
    for args, given in calls:
        on_device = {name: x.to(device) if isinstance(x, torch.Tensor) else x for name, x in given.items()}
        leaves = [x.to(device).requires_grad_() for x in args[:3]]
        leaves += [on_device[name].requires_grad_() for name in ("pse", "sink") if name in on_device]

        def call(query, key, value, rest=args[3:], on_device=on_device):
            return torch_npu.npu_fusion_attention_v3(query, key, value, *rest, scale=SCALE, **on_device)[0]

        compiled = torch.compile(call, backend="npugraph_ex", fullgraph=True, dynamic=dynamic)
        for _ in range(2):
            got, want = (torch.autograd.grad(run(*leaves[:3]).square().sum(), leaves) for run in (compiled, call))
            for g, w in zip(got, want, strict=True):
                assert g.device.type == device and g.shape == w.shape
                check_close(g.cpu(), w.cpu())


def test_gradients_of_version_3_in_graphs_drop_what_was_dropped() -> None:
    args = (*inputs("BSND", 4, 2), 4, "BSND")
    leaves = [x.npu().requires_grad_() for x in args[:3]]

    def call(query, key, value):
        return torch_npu.npu_fusion_attention_v3(query, key, value, *args[3:], keep_prob=0.5, scale=SCALE)

    results = torch.compile(call, backend="npugraph_ex", fullgraph=True)(*leaves)
    given = torch.ones_like(results[0])
    got = torch.autograd.grad(results[0].sum(), leaves)
    saved = {"softmax_max": results[1], "softmax_sum": results[2], "attention_in": results[0].detach()}
    with torch.no_grad():
        want = torch_npu.npu_fusion_attention_grad_v3(
            *leaves, given, *args[3:], keep_prob=0.5, scale_value=SCALE, seed=results[4], offset=results[5], **saved
        )
    for g, w in zip(got, want[:3], strict=True):
        check_close(g.cpu(), w.cpu())


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_gradient_of_version_3_under_gradients(dynamic: bool) -> None:
    """In a graph the operator of the gradient takes tensors that want gradients, which its results do not."""
    args = (*inputs("BSND", 4, 2), 4, "BSND")
    leaves = [x.npu().requires_grad_() for x in args[:3]]
    dy = normal(*args[0].shape[:3], args[2].shape[-1], seed=9).npu()

    def call(query, key, value, dy):
        return torch_npu.npu_fusion_attention_grad_v3(query, key, value, dy, *args[3:], scale_value=SCALE)[:3]

    compiled = torch.compile(call, backend="npugraph_ex", fullgraph=True, dynamic=dynamic)
    for got, want in zip(compiled(*leaves, dy), call(*leaves, dy), strict=True):
        check_close(got.detach().cpu(), want.detach().cpu())
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(x) for x in (*leaves, dy)]
        for got, want in zip(call(*fake), args[:3], strict=True):
            assert (got.shape, got.dtype, got.requires_grad) == (want.shape, want.dtype, False)


def test_version_3_into_out() -> None:
    args = (*inputs("BSND", 4, 2), 4, "BSND")
    want = torch_npu.npu_fusion_attention_v3(*args, keep_prob=0.5)
    grad = torch_npu.npu_fusion_attention_grad_v3(
        *args[:3], args[0], *args[3:], keep_prob=0.5, seed=want[4], offset=want[5]
    )
    assert [x.shape for x in grad[:3]] == [x.shape for x in args[:3]]
    out = [torch.empty_like(x) for x in want]
    args = tuple(x.npu() if isinstance(x, torch.Tensor) else x for x in args)
    out = [x.npu() for x in out]
    got = torch_npu.npu_fusion_attention_v3(
        *args, out=out, workspace=torch_npu._npu_fusion_attention_v3_get_max_workspace(*args)
    )
    plain = torch_npu.npu_fusion_attention_v3(*args)
    for g, o, w in zip(got, out, plain, strict=True):
        assert g.data_ptr() == o.data_ptr() and torch.equal(o.cpu(), w.cpu())
    shapes = torch_npu._npu_fusion_attention_v3_infer_output(*args)
    assert [x.shape for x in shapes] == [x.shape for x in want[:3]]


def test_what_gradients_of_version_3_need() -> None:
    query, key, value = (x.npu() for x in inputs("BSND", 4, 2))
    given = {"pse": normal(1, 4, 5, 7, seed=4).npu(), "sink": normal(4, seed=5).npu()}
    for extra in ({}, given):
        grads = torch_npu.npu_fusion_attention_grad_v3(query, key, value, query, 4, "BSND", **extra)
        made = torch_npu._npu_fusion_attention_grad_v3_infer_output(query, key, value, **extra)
        check_alike((made, [], {}), (grads, [], {}))
        for dynamic in (False, True):
            check_fake(
                torch_npu._npu_fusion_attention_grad_v3_infer_output, (query, key, value), extra, made, dynamic=dynamic
            )
        get_workspace = torch_npu._npu_fusion_attention_grad_v3_get_max_workspace
        args = (query, key, value, query, 4, "BSND")
        workspace = get_workspace(*args, **extra)
        assert workspace.dim() == 1 and workspace.device == query.device
        check_fake(get_workspace, args, extra, workspace, dynamic=True)
        out = [torch.empty_like(x) for x in grads]
        torch_npu.npu_fusion_attention_grad_v3.out(*args, **extra, workspace=workspace, out=out)
        assert all(map(torch.equal, out, grads))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input_layout": "BDS"}, 'npu_fusion_attention: the layout is "BDS", allowed are BSH, SBH,'),
        ({"head_num": 3}, "npu_fusion_attention: head_num is 3, and query has 4 heads"),
        ({"sparse_mode": 9}, "npu_fusion_attention: sparse_mode is 9, allowed are 0 to 8"),
        ({"sparse_mode": 7}, "npu_fusion_attention: sparse_mode 7 is for layout TND"),
        ({"sparse_mode": 1}, "npu_fusion_attention: sparse_mode 1 needs atten_mask"),
        ({"prefix": [1]}, "npu_fusion_attention: sparse_mode is 0 and prefix has 1 numbers"),
        ({"keep_prob": 1.5}, "npu_fusion_attention: keep_prob is 1.5, allowed are 0 to 1"),
        ({"input_layout": "BSH"}, "npu_fusion_attention: query has 4 dimensions, and not those of BSH"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(change: dict[str, Any], message: str) -> None:
    query, key, value = inputs("BSND", 4, 2)
    with pytest.raises(RuntimeError, match=message):
        torch_npu.npu_fusion_attention(query, key, value, **{"head_num": 4, "input_layout": "BSND"} | change)


def test_errors_of_lengths() -> None:
    with pytest.raises(RuntimeError, match="layout TND needs actual_seq_qlen and actual_seq_kvlen of the same length"):
        torch_npu.npu_fusion_attention(*packed(), 4, "TND")
    with pytest.raises(RuntimeError, match="actual_seq_qlen has 3 after 9, allowed are ends that do not decrease"):
        torch_npu.npu_fusion_attention(*packed(), 4, "TND", actual_seq_qlen=[9, 3], actual_seq_kvlen=[4, 14])


@pytest.mark.parametrize(("queries", "keys"), [([0, 1], [1, 1]), ([1, 1], [0, 1])])
def test_views_of_sequences_without_queries_run_in_no_python(queries, keys) -> None:
    """Fake tensors give empty results other strides than the rules of views do."""
    tensors = torch.randn(1, 4, 4).npu(), torch.randn(1, 2, 4).npu(), torch.randn(1, 2, 4).npu()
    lengths = {"actual_seq_qlen": queries, "actual_seq_kvlen": keys}
    check_views_compiled(torch.ops.npu.npu_fusion_attention, ((*tensors, 4, "TND"), {"scale": 0.5, **lengths}))


@pytest.mark.parametrize("layout", ["BSH", "BNSD"])
def test_fewer_heads_of_keys_compile_for_any_sizes(layout: str) -> None:
    sizes = {"BSH": ((1, 2, 16), (1, 1, 8)), "BNSD": ((1, 4, 2, 4), (1, 2, 1, 4))}[layout]
    query, key, value = (torch.randn(size, dtype=torch.float16).npu() for size in (sizes[0], sizes[1], sizes[1]))
    check_views_compiled(torch.ops.npu.npu_fusion_attention, ((query, key, value, 4, layout), {"scale": 0.5}))


def test_rows_without_elements_have_no_heads() -> None:
    rows = torch.randn(1, 2, 0, dtype=torch.float16, device="npu")
    with pytest.raises(RuntimeError, match="the last dimension of key has size 0, which is no multiple of 0 heads"):
        torch.ops.npu.npu_fusion_attention(rows, rows, rows, 4, "BSH")
