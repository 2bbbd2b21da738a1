# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/matmul/grouped_matmul.cc and grouped_fusions.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.microscaled import as_bytes, blocks
from tests.python.device.npu_operators import FLOATING, check, check_gradient, check_refused, integers, normal
from tests.python.device.quantised import packed, saturated, unpacked

COUNTS = [2, 0, 3]
LISTS = {0: torch.tensor([2, 2, 5]), 1: torch.tensor(COUNTS), 2: torch.tensor([[0, 2], [1, 0], [2, 3]])}


def int8(*size: int, seed: int = 0) -> torch.Tensor:
    return integers(-128, 128, *size, dtype=torch.int8, seed=seed)


def by_rows(x, weight, counts=COUNTS):
    """Multiplies each group of rows of x by its weight. Rows behind the last group become zeros."""
    parts = [rows @ w for rows, w in zip(x.split([*counts, len(x) - sum(counts)]), weight, strict=False)]
    rest = len(x) - sum(counts)
    return torch.cat([*parts, torch.zeros(rest, weight[0].shape[-1], dtype=x.dtype)])


def factors(scales):
    """Returns the powers of two that scales of blocks stand for, each 32 times."""
    return (scales.double() - 127).exp2().repeat_interleave(32, -1)


def spread(table, counts=COUNTS):
    return torch.cat([row.expand(n, *row.shape) for row, n in zip(table, counts, strict=True)])


@pytest.mark.parametrize(("dtype", "group_list_type"), list(zip(FLOATING, LISTS, strict=True)))
def test_each_group_of_rows_has_its_weight(dtype: torch.dtype, group_list_type: int) -> None:
    args = ([normal(7, 8, dtype=dtype)], [normal(3, 8, 4, dtype=dtype, seed=1)])
    kwargs = {"group_list": LISTS[group_list_type], "group_list_type": group_list_type, "group_type": 0}

    def reference(x, weight, **_):
        return [by_rows(x[0], weight[0])]

    check(torch_npu.npu_grouped_matmul, args, reference, whole=True, split_item=2, **kwargs)


def test_pairs_of_tensor_and_group() -> None:
    x, weight = [normal(5, 8)], [normal(4, 8, 4, seed=1)]
    pairs = torch.tensor([[3, 2], [0, 3]])

    def reference(x, weight, **_):
        return [torch.cat([x[0][:2] @ weight[0][3], x[0][2:] @ weight[0][0]])]

    kwargs = {"group_list": pairs, "group_list_type": 2, "group_type": 0, "split_item": 3}
    check(torch_npu.npu_grouped_matmul, (x, weight), reference, whole=True, **kwargs)


def test_rows_to_one_result_for_each_group() -> None:
    x, weight = normal(5, 8), normal(3, 8, 4, seed=1)
    for device in ("cpu", "npu"):
        kwargs = {"group_list": LISTS[1].to(device), "group_list_type": 1, "group_type": 0}
        got = torch_npu.npu_grouped_matmul([x.to(device)], [weight.to(device)], **kwargs)
        assert [len(y) for y in got] == COUNTS
        torch.testing.assert_close(torch.cat(list(got)).cpu(), by_rows(x, weight))
    with pytest.raises(RuntimeError, match="with one x and split_item 0 or 1 the sizes of results are values"):
        torch_npu.npu_grouped_matmul(
            [x.to("meta")], [weight.to("meta")], **kwargs | {"group_list": LISTS[1].to("meta")}
        )


@pytest.mark.parametrize("split_item", [0, 3])
def test_lists_are_multiplied_pair_by_pair(split_item: int) -> None:
    x = [normal(2, 8), normal(3, 8, seed=1)]
    weight = [normal(8, 4, seed=2), normal(8, 4, seed=3)]
    bias = [normal(4, seed=4), normal(4, seed=5)]

    def reference(x, weight, bias, **_):
        out = [a @ w + b for a, w, b in zip(x, weight, bias, strict=True)]
        return [torch.cat(out)] if split_item == 3 else out

    kwargs = {"bias": bias, "split_item": split_item, "group_type": 0 if split_item == 3 else -1}
    check(torch_npu.npu_grouped_matmul, (x, weight), reference, whole=True, **kwargs)


def test_pairs_of_any_size() -> None:
    args = ([normal(2, 3, 8), normal(5, 6, seed=1)], [normal(8, 4, seed=2), normal(6, 2, seed=3)])
    check(torch_npu.npu_grouped_matmul, args, lambda x, w, **_: [a @ b for a, b in zip(x, w, strict=True)],
          whole=True, group_type=-1)  # fmt: skip


def test_groups_along_the_sum_give_their_own_products() -> None:
    args = ([normal(3, 5)], [normal(5, 4, seed=1)])

    def reference(x, weight, **_):
        parts = zip(x[0].split(COUNTS, 1), weight[0].split(COUNTS), strict=True)
        return [torch.stack([a @ w for a, w in parts])]

    kwargs = {"group_list": LISTS[1], "group_list_type": 1, "group_type": 2, "split_item": 3}
    check(torch_npu.npu_grouped_matmul, args, reference, whole=True, **kwargs)
    check_gradient(torch_npu.npu_grouped_matmul, args, reference, **kwargs)


def test_sums_of_pairs_of_any_size() -> None:
    args = ([normal(4, 8), normal(6, 8, seed=1)], [normal(8, 5, seed=2), normal(8, 7, seed=3)])
    check(torch_npu.npu_grouped_matmul, args, lambda x, w, **_: [a @ b for a, b in zip(x, w, strict=True)],
          whole=True, group_type=2, split_item=0)  # fmt: skip


def test_sums_with_weights_of_their_own() -> None:
    """Each group of columns of x has a weight, a bias and scales of its own. There may be no columns."""
    weight = [normal(n, 4, seed=i) for i, n in enumerate(COUNTS)]
    bias = [normal(4, seed=i + 3) for i in range(3)]

    def reference(x, weight, bias, split_item, **_):
        parts = [a @ w + b for a, w, b in zip(x[0].split(COUNTS, 1), weight, bias, strict=True)]
        return [torch.stack(parts)] if split_item == 3 else parts

    for split_item in (3, 0):
        kwargs = {"group_list": LISTS[1], "group_list_type": 1, "group_type": 2, "split_item": split_item}
        args, compiled = ([normal(3, 5)], weight), split_item == 3
        check(torch_npu.npu_grouped_matmul, args, reference, bias=bias, whole=True, compiled=compiled, **kwargs)

        def reference_of_lists(x, *args, **kwargs):
            return reference([torch.cat(x, 1)], *args, **kwargs)

        args = ([x.contiguous() for x in args[0][0].split(COUNTS, 1)], weight)
        check(torch_npu.npu_grouped_matmul, args, reference_of_lists, bias=bias, whole=True, compiled=False, **kwargs)
    codes, scale = [int8(n, 4, seed=i) for i, n in enumerate(COUNTS)], [normal(4, seed=i).abs() / 99 for i in range(3)]
    tokens = [normal(3, seed=i + 6).abs() for i in range(3)]

    def quantised(x, weight, scale, per_token_scale, **_):
        parts = zip(x[0].double().split(COUNTS, 1), weight, scale, per_token_scale, strict=True)
        return [torch.stack([a @ w.double() * s * t[:, None] for a, w, s, t in parts])]

    none = torch_npu.npu_grouped_matmul([normal(3, 0)], [normal(0, 4)], group_list=[], group_type=2, split_item=3)
    assert none[0].shape == (0, 3, 4)
    kwargs |= {"scale": scale, "per_token_scale": tokens, "split_item": 3, "output_dtype": torch.bfloat16}
    check(torch_npu.npu_grouped_matmul, ([int8(3, 5)], codes), quantised, whole=True, compiled=False, **kwargs)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float32])
def test_sums_of_nothing_are_refused(dtype: torch.dtype) -> None:
    x, weight, message = (
        torch.zeros(5, 0, dtype=dtype),
        torch.zeros(3, 0, 4, dtype=dtype),
        "there is nothing to sum over",
    )
    rows = {"group_list": LISTS[0], "group_type": 0, "split_item": 2}
    check_refused("npu_grouped_matmul", rf"x has shape \[5, 0\], and {message}", [x], [weight], **rows)
    check_refused("npu_grouped_matmul", rf"x has shape \[2, 0\], and {message}", [x[:2]], [weight[0]], group_type=-1)


@pytest.mark.parametrize("split_item", range(4))
def test_groups_as_ints(split_item: int) -> None:
    args = ([normal(5, 8)], [normal(3, 8, 4, seed=1)])
    ends = {0: [2, 2, 5], 1: COUNTS}[split_item % 2]

    def reference(x, weight, **_):
        out = by_rows(x[0], weight[0])
        return [out] if split_item >= 2 else [*out.split(COUNTS)]

    kwargs = {"group_list": ends, "group_list_type": split_item % 2, "split_item": split_item}
    op = torch_npu.npu_grouped_matmul
    check(op, args, reference, whole=True, compiled=split_item in (0, 3), **kwargs)
    check(op.List, args, reference, whole=True, compiled=False, group_type=0, **kwargs)


@pytest.mark.parametrize("group_type", [-1, 0])
def test_one_x_and_a_weight_for_each_group_of_ints(group_type: int) -> None:
    """Each result has the rows of its group, and the columns of its weight."""
    args = ([normal(5, 8)], [normal(8, n, seed=n) for n in (4, 6, 2)])

    def reference(x, weight, **_):
        return [rows @ w for rows, w in zip(x[0].split(COUNTS), weight, strict=True)]

    kwargs = {"group_list": [2, 2, 5], "split_item": 0, "group_type": group_type}
    check(torch_npu.npu_grouped_matmul, args, reference, whole=True, compiled=group_type == -1, **kwargs)


def test_words_of_int4_are_eight_columns() -> None:
    weight = [integers(-8, 8, 8, n, seed=n) for n in (16, 24)]
    x, scale = [normal(3, 8).half(), normal(2, 8, seed=1).half()], [normal(n, seed=n).half() for n in (16, 24)]

    def reference(x, words, antiquant_scale, antiquant_offset, **_):
        return [a @ (unpacked(w) * s) for a, w, s in zip(x, words, antiquant_scale, strict=True)]

    kwargs = {"antiquant_scale": scale, "antiquant_offset": [torch.zeros_like(x) for x in scale], "group_type": -1}
    check(
        torch_npu.npu_grouped_matmul, (x, [packed(w) for w in weight]), reference, whole=True, compiled=False, **kwargs
    )


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_results_in_float8_are_saturated(dtype: torch.dtype) -> None:
    kwargs = {"group_list": LISTS[0], "group_type": 0, "split_item": 3, "output_dtype": dtype}
    largest = torch.finfo(dtype).max

    def reference(x, weight, **_):
        return [by_rows(x[0].double(), weight[0].double()).clamp(-largest, largest)]

    args = ([normal(7, 8) * 100], [normal(3, 8, 4, seed=1) * 100])
    check(torch_npu.npu_grouped_matmul, args, reference, whole=True, compiled=False, **kwargs)
    quantised = {"scale": [normal(3, 4).abs()], "per_token_scale": [normal(7, seed=1).abs()], **kwargs}

    def scaled(x, weight, scale, per_token_scale, **_):
        rows = by_rows(x[0].double(), weight[0].double() * scale[0][:, None]) * per_token_scale[0][:, None]
        return [rows.clamp(-largest, largest)]

    check(
        torch_npu.npu_grouped_matmul, ([int8(7, 8)], [int8(3, 8, 4)]), scaled, whole=True, compiled=False, **quantised
    )


def test_groups_of_sums_as_ints() -> None:
    def reference(x, weight, **_):
        return [a @ w for a, w in zip(x[0].split(COUNTS, 1), weight[0].split(COUNTS), strict=True)]

    args, kwargs = ([normal(3, 5)], [normal(5, 4, seed=1)]), {"group_list": [2, 2, 5], "group_type": 2}
    check(torch_npu.npu_grouped_matmul, args, reference, whole=True, **kwargs)
    check_gradient(torch_npu.npu_grouped_matmul, args, reference, **kwargs)


def in_fractals(weight: torch.Tensor, n: int) -> torch.Tensor:
    """Returns the weight [..., k, n] in the layout NZ, in pieces of 16 rows and ``n`` columns."""
    rows, columns = weight.shape[-2:]
    parts = [
        weight[..., i * 16 : i * 16 + 16, j * n : j * n + n] for j in range(columns // n) for i in range(rows // 16)
    ]
    return torch.stack(parts, -3).unflatten(-3, (columns // n, rows // 16)).contiguous()


@pytest.mark.parametrize("words", [False, True])
def test_weights_in_fractals(words: bool) -> None:
    if words:
        weight, pieces = packed(integers(-8, 8, 3, 32, 128, seed=1)), 8
    else:
        weight, pieces = int8(3, 32, 64, seed=1), 32
    nz, columns = in_fractals(weight, pieces), weight.shape[2] * (8 if words else 1)
    assert nz.shape == (3, 2, 2, 16, pieces)
    scale, tokens, ends = normal(3, columns, seed=2).abs() / 1000, normal(5, seed=3).abs(), LISTS[0]

    def like(op, *plain, **kwargs):
        """Checks that a call with such a weight gives what the same call with the plain weight gives."""
        want = op(*plain, **kwargs)

        def given(value):
            if isinstance(value, list):
                return [*map(given, value)]
            return nz if value is weight else in_fractals(value, pieces) if value.shape == weight.shape[1:] else value

        compiled = not words and "swiglu_quant_v2" in str(op)
        args = [given(value) for value in plain]
        check(op, args, lambda *_, **__: want, whole=True, compiled=compiled, **kwargs)

    x = int8(5, 32)
    if not words:
        like(torch_npu.npu_grouped_matmul_swiglu_quant, x, weight, ends, scale, tokens)
    v2 = torch_npu.npu_grouped_matmul_swiglu_quant_v2
    like(v2, x, [weight], [scale], tokens, ends)
    like(v2, x, [*weight.clone()], [*scale.clone()], tokens, ends)
    finalize = torch_npu.npu_grouped_matmul_finalize_routing
    like(finalize, x, weight, ends, scale=scale, pertoken_scale=tokens, group_list_type=0)
    kwargs = {"scale": [scale], "per_token_scale": [tokens], "group_list": ends, "split_item": 3, "group_type": 0}
    like(torch_npu.npu_grouped_matmul, [x], [weight], **kwargs, output_dtype=torch.bfloat16)


def test_gradients_are_those_of_the_reference() -> None:
    kwargs = {"group_list": LISTS[0], "group_type": 0, "split_item": 3}
    args = ([normal(5, 8)], [normal(3, 8, 4, seed=1)])
    check_gradient(torch_npu.npu_grouped_matmul, args, lambda x, w, **_: [by_rows(x[0], w[0])], **kwargs)


@pytest.mark.parametrize("act_type", range(6))
def test_activations_are_applied_to_the_products(act_type: int) -> None:
    f = torch.nn.functional
    acts = [
        lambda y: y,
        f.relu,
        lambda y: f.gelu(y, approximate="tanh"),
        f.gelu,
        lambda y: y * torch.sigmoid(1.702 * y),
        f.silu,
    ]
    kwargs = {"group_list": LISTS[0], "group_type": 0, "split_item": 3, "act_type": act_type}
    got = torch_npu.npu_grouped_matmul([normal(5, 8).npu()], [normal(3, 8, 4, seed=1).npu()],
                                       **kwargs | {"group_list": LISTS[0].npu()})  # fmt: skip
    want = acts[act_type](by_rows(normal(5, 8), normal(3, 8, 4, seed=1)))
    torch.testing.assert_close(got[0].cpu(), want)


@pytest.mark.parametrize("bias_dtype", [torch.int32, torch.float32])
def test_quantised_products_are_scaled_by_group_and_token(bias_dtype: torch.dtype) -> None:
    kwargs = {
        "scale": [normal(3, 4, seed=2).abs() / 1000],
        "per_token_scale": [normal(5, seed=3).abs()],
        "bias": [integers(-99, 99, 3, 4, seed=4).to(bias_dtype)],
        "group_list": LISTS[0],
    }

    def reference(x, weight, scale, per_token_scale, bias, **_):
        sums, b = by_rows(x[0].double(), weight[0].double()), spread(bias[0])
        sums = sums + b if bias_dtype == torch.int32 else sums
        y = sums * spread(scale[0]) * per_token_scale[0][:, None]
        return [y if bias_dtype == torch.int32 else y + b]

    options = {"split_item": 2, "group_type": 0, "output_dtype": torch.bfloat16}
    args = ([int8(5, 8)], [int8(3, 8, 4, seed=1)])
    check(torch_npu.npu_grouped_matmul, args, reference, whole=True, **kwargs, **options)


def test_quantised_lists_and_results() -> None:
    x, weight = [int8(5, 8)], [int8(8, 4, seed=i) for i in range(1, 4)]
    scale, offset = [torch.full((4,), 2.0**-9)] * 3, [torch.full((4,), float(i)) for i in range(3)]
    kwargs = {"group_list": LISTS[0], "split_item": 2, "group_type": 0}

    def sums(x, weight):
        return by_rows(x[0].double(), [w.double() for w in weight])

    op = torch_npu.npu_grouped_matmul
    check(op, (x, weight), lambda x, w, **_: [sums(x, w).int()], whole=True, **kwargs)
    check(op, (x, weight), lambda x, w, **_: [saturated(sums(x, w) / 512 + spread(torch.stack(offset)))], whole=True,
          scale=scale, offset=offset, output_dtype=torch.int8, **kwargs)  # fmt: skip
    words = [torch_npu.npu_trans_quant_param(s) for s in scale]
    check(op, (x, weight), lambda x, w, **_: [sums(x, w) / 512], whole=True, scale=words, output_dtype=torch.float16,
          **kwargs)  # fmt: skip


@pytest.mark.parametrize("groups", [1, 2])
def test_weights_alone_are_quantised(groups: int) -> None:
    weight = integers(-8, 8, 3, 8, 16)
    size = (3, 16) if groups == 1 else (3, 2, 16)
    scale, offset = normal(*size, seed=1, dtype=torch.float16), integers(-3, 3, *size, seed=2).half()

    def reference(x, weight, antiquant_scale, antiquant_offset, **_):
        s, o = (v[0].view(3, groups, 16).repeat_interleave(8 // groups, 1) for v in (antiquant_scale, antiquant_offset))
        return [by_rows(x[0], (unpacked(weight[0]) + o) * s)]

    kwargs = {"antiquant_scale": [scale], "antiquant_offset": [offset], "group_list": LISTS[0]}
    kwargs |= {"split_item": 2, "group_type": 0}
    check(torch_npu.npu_grouped_matmul, ([normal(5, 8).half()], [packed(weight)]), reference, whole=True, **kwargs)


def test_int8_with_int4() -> None:
    weight, scale = integers(-8, 8, 3, 8, 16), normal(3, 2, 16, seed=1).abs()
    correction = 8 * (weight * scale.repeat_interleave(4, 1)).sum(1)
    kwargs = {"scale": [scale], "bias": [correction], "per_token_scale": [normal(5, seed=2).abs()]}

    def reference(x, weight, scale, per_token_scale, **_):
        exact = unpacked(weight[0]) * scale[0].repeat_interleave(4, 1)
        return [by_rows(x[0].double(), exact) * per_token_scale[0][:, None]]

    kwargs |= {"group_list": LISTS[0], "split_item": 2, "group_type": 0, "output_dtype": torch.bfloat16}
    check(torch_npu.npu_grouped_matmul, ([int8(5, 8)], [packed(weight)]), reference, whole=True, **kwargs)


def gated_and_quantised(y, smooth=1):
    first, second = y.chunk(2, -1)
    y = torch.nn.functional.silu(first) * second * smooth
    scale = y.abs().amax(-1) / 127
    return saturated(y / scale.where(scale != 0, 1)[:, None]), scale


def test_swiglu_quant() -> None:
    args = (int8(7, 8), int8(3, 8, 4, seed=1), LISTS[0], normal(3, 4, seed=2).abs() / 1000, normal(7, seed=3).abs())

    def reference(x, weight, ends, weight_scale, x_scale):
        scales = torch.cat([spread(weight_scale), torch.zeros(2, 4)])
        y = by_rows(x.double(), weight.double()) * scales * x_scale[:, None]
        return *gated_and_quantised(y), torch.tensor(0.0)

    check(torch_npu.npu_grouped_matmul_swiglu_quant, args, reference, whole=True)


@pytest.mark.parametrize("stacked", [True, False])
def test_swiglu_quant_v2(stacked: bool) -> None:
    weight, scale = int8(3, 8, 4, seed=1), normal(3, 4, seed=2).abs() / 1000
    lists = ([weight], [scale]) if stacked else ([*weight.clone()], [*scale.clone()])
    args = (int8(5, 8), *lists, normal(5, seed=3).abs(), LISTS[1])

    def reference(x, weights, scales, x_scale, counts, smooth_scale, group_list_type):
        y = by_rows(x.double(), weight.double()) * spread(scale) * x_scale[:, None]
        return gated_and_quantised(y, spread(smooth_scale))

    kwargs = {"smooth_scale": normal(3, 2, seed=4).abs(), "group_list_type": 1}
    check(torch_npu.npu_grouped_matmul_swiglu_quant_v2, args, reference, whole=True, **kwargs)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, 296])
def test_swiglu_quant_v2_in_blocks(dtype: torch.dtype | int) -> None:
    """Operands and results have one scale for each 32 values."""
    x, weight = (normal(*size, seed=i).to(torch.float8_e4m3fn) for i, size in enumerate(((7, 64), (3, 64, 160))))
    scales = [
        integers(120, 126, *size, dtype=torch.uint8, seed=i) for i, size in enumerate(((7, 1, 2), (3, 1, 160, 2)))
    ]
    rows = x.double() * factors(scales[0]).flatten(1)
    weights = weight.double() * factors(scales[1]).movedim(-1, 2).flatten(1, 2)
    y = by_rows(rows, weights)
    want = blocks(torch.nn.functional.silu(y[:, :80]) * y[:, 80:], -1, dtype)
    args = (x, [weight], [scales[1]], scales[0], LISTS[0])
    kwargs = {"dequant_mode": 2, "quant_mode": 2, "quant_dtype": dtype}

    def op(*args, **kwargs):
        return as_bytes(torch_npu.npu_grouped_matmul_swiglu_quant_v2(*args, **kwargs))

    values, of_blocks = op(*args, **kwargs)
    assert torch.equal(of_blocks, want[1]) and (values != want[0]).double().mean() < 0.02
    check(op, args, lambda *_, **__: (values, of_blocks), whole=True, compiled=dtype != 296, **kwargs)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_finalize_routing(dtype: torch.dtype | None) -> None:
    args = (int8(5, 8), int8(3, 8, 4, seed=1), LISTS[1])
    kwargs = {
        "scale": normal(3, 4, seed=2).abs() / 1000,
        "pertoken_scale": normal(5, seed=3).abs(),
        "shared_input": normal(2, 4, seed=4).bfloat16(),
        "logit": normal(5, seed=5),
        "row_index": torch.tensor([1, 0, 3, 1, 2]),
    } | ({} if dtype is None else {"dtype": dtype})

    def reference(x, w, counts, scale, pertoken_scale, shared_input, logit, row_index, **_):
        rows = by_rows(x.double(), w.double()) * spread(scale) * (pertoken_scale * logit)[:, None]
        out = torch.zeros(4, 4, dtype=torch.float64)
        for place, row in zip(row_index.tolist(), rows, strict=True):
            out[place] += row
        out[1:3] += 0.5 * shared_input
        return out

    options = {"output_bs": 4, "shared_input_offset": 1, "shared_input_weight": 0.5}
    check(torch_npu.npu_grouped_matmul_finalize_routing, args, reference, whole=True, **kwargs, **options)


def test_products_are_added() -> None:
    x, weight = normal(5, 4).half(), normal(5, 6, seed=1).half()
    for size in ((3, 4, 6), (12, 6)):
        args = (normal(*size, seed=2), x, weight, LISTS[0])

        def reference(y, x, w, ends):
            parts = zip(x.split(COUNTS), w.split(COUNTS), strict=True)
            return y + torch.stack([a.t() @ b for a, b in parts]).view_as(y)

        check(torch_npu.npu_grouped_matmul_add, args, reference, whole=True)
        written = args[0].npu()
        out = torch_npu.npu_grouped_matmul_add_(written, *(v.npu() for v in args[1:]))
        assert out.data_ptr() == written.data_ptr()
        torch.testing.assert_close(written.cpu(), reference(*(v.float() for v in args[:3]), ends=None))


@pytest.mark.parametrize("quant_mode", ["pertoken", "pertensor"])
def test_quant_grouped_matmul_dequant(quant_mode: str) -> None:
    args = (normal(5, 8), int8(3, 4, 8, seed=1), normal(3, 4, seed=2).abs() / 100, LISTS[0])
    kwargs = {"bias": integers(-99, 99, 3, 4, dtype=torch.int32, seed=3), "smooth_scale": normal(3, 8, seed=4)}
    if quant_mode == "pertensor":
        kwargs |= {"smooth_scale": normal(8, seed=4), "x_scale": torch.tensor([0.02])}

    def reference(x, weight, weight_scale, ends, bias, smooth_scale, x_scale=None, **_):
        x = x * (spread(smooth_scale) if smooth_scale.dim() == 2 else smooth_scale)
        scale = (x.abs().amax(-1) / 127 if x_scale is None else x_scale).expand(5)
        sums = by_rows(saturated(x / scale[:, None]).double(), weight.double().transpose(1, 2))
        return (sums + spread(bias)) * spread(weight_scale) * scale[:, None]

    op = torch_npu.npu_quant_grouped_matmul_dequant
    check(op, args, reference, whole=True, quant_mode=quant_mode, **kwargs)


def test_quantised_products_are_added() -> None:
    x1, x2 = normal(4, 5).to(torch.float8_e4m3fn), normal(5, 6, seed=1).to(torch.float8_e4m3fn)
    args = (normal(3, 4, 6, seed=2), x1.view(torch.uint8), x2.view(torch.uint8), normal(3, 6, seed=3), LISTS[0])
    kwargs = {"x1_scale": normal(3, 4, seed=4)}
    codes = {"x1_dtype": 292, "x2_dtype": torch.float8_e4m3fn}

    def reference(y, a, b, x2_scale, ends, x1_scale, **_):
        parts = zip(x1.double().split(COUNTS, 1), x2.double().split(COUNTS), strict=True)
        return y + torch.stack([a @ b for a, b in parts]) * x1_scale[..., None] * x2_scale[:, None]

    check(torch_npu.npu_add_quant_gmm, args, reference, whole=True, **kwargs, **codes)
    written = args[0].npu()
    more = {"x1_scale": kwargs["x1_scale"].npu(), **codes}
    out = torch_npu.npu_add_quant_gmm_(written, *(v.npu() for v in args[1:]), **more)
    assert out.data_ptr() == written.data_ptr()
    torch.testing.assert_close(written.cpu().double(), reference(*args, **kwargs), rtol=1e-5, atol=1e-5)


def test_errors_of_fusions() -> None:
    x, w, ends, one = int8(5, 8), int8(3, 8, 4), LISTS[0], torch.ones(3, 4)
    op = "npu_grouped_matmul_swiglu_quant"
    check_refused(op, r"x is of type Float, allowed are Char", x.float(), w, ends, one, torch.ones(5))
    check_refused(op, r"group_list ends group 2 at 5, allowed are 2 to 4", x[:4], w, ends, one, torch.ones(4))
    op, args = op + "_v2", (x, [w], [one], torch.ones(5), ends)
    check_refused(op, r"quant_mode is 1, allowed are \[0, 2\]", *args, quant_mode=1)
    check_refused(op, r"quant_dtype is Float8_e4m3fn, allowed with quant_mode 0 is Char", *args, quant_dtype=24)
    op = "npu_grouped_matmul_finalize_routing"
    check_refused(op, r"dtype is Int, allowed are Float", x, w, ends, dtype=torch.int32)
    options = {"scale": one, "shared_input": normal(2, 4), "shared_input_offset": 4, "group_list_type": 0}
    check_refused(op, r"shared_input is for rows 4 to 6, and there are 5", x, w, ends, **options)
    args = (normal(3, 4, 6), normal(5, 4), normal(5, 6), ends)
    check_refused("npu_grouped_matmul_add", r"group_type is 0, allowed is 2", *args, group_type=0)


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    x, w, ends = [normal(5, 8)], [normal(3, 8, 4)], LISTS[0]
    refused, op = check_refused, "npu_grouped_matmul"
    refused(op, r"x and weight have 0 and 1 tensors, allowed is at least one", [], w)
    refused(op, r"x has 2 tensors, allowed are 1 and 3, the number of weights", x * 2, w)
    refused(op, r"group_type is 1, allowed are -1", x, w, group_type=1)
    refused(op, r"group_type is 0, and group_list is not given", x, w, group_type=0)
    refused(op, r"group_type is None, which is allowed with a list of ints as group_list alone", x, w, group_list=ends)
    rows = {"group_type": 0, "group_list": ends}
    refused(op, r"split_item is 4, allowed are 0 to 3", x, w, split_item=4, **rows)
    refused(op, r"act_type is 6, allowed are 0 to 5", x, w, act_type=6, **rows)
    refused(op, r"group_list_type is 3, allowed are 0", x, w, group_list_type=3, **rows)
    refused(
        op, r"group_list ends group 2 at 9, allowed are 2 to 5", x, w, **rows | {"group_list": torch.tensor([2, 2, 9])}
    )
    refused(
        op, r"group_list ends group 1 at 1, allowed are 2 to 5", x, w, **rows | {"group_list": torch.tensor([2, 1, 5])}
    )
    refused(
        op, r"group_list ends group 1 at .*, allowed are 1 to 5", x, w, group_list=[1, 2**63 - 1], group_list_type=1
    )
    pairs = torch.tensor([[3, 1]])
    refused(
        op,
        r"group_list names group 3, and there are 3 weights",
        x,
        w,
        **rows | {"group_list": pairs},
        group_list_type=2,
    )
    refused(op, r"group_list has 1 dimensions, allowed are 2 to 2", x, w, **rows, group_list_type=2)
    message = r"group_list_type is 2, for which group_list is a tensor, and it is a list"
    refused(op, message, x, w, group_list=[0, 5], group_list_type=2)
    refused(op, r"group_list ends group 2 at 9, allowed are 2 to 5", x, w, group_list=[2, 2, 9])
    refused(op, r"weight has shape \[6, 4\], and 8 is the size to sum over", x, [normal(6, 4)], group_type=-1)
    refused(op, r"activation_input, .* are reserved, allowed is None", x, w, **rows, activation_input=x)


def test_graphs_with_gradients_break_at_what_reads_values() -> None:
    def sums(x):
        zeros, ones = torch.zeros(3, 8, 4, device="npu"), torch.ones(5, 4, device="npu")
        return torch_npu.npu_grouped_matmul_add(zeros, x.sin(), ones, LISTS[0].npu()).cos()

    x, other = (normal(5, 8).npu().requires_grad_() for _ in range(2))
    torch.compile(sums, backend="npugraph_ex")(x).sum().backward()
    sums(other).sum().backward()
    torch.testing.assert_close(x.grad, other.grad)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="graph break"):
        torch.compile(sums, backend="npugraph_ex", fullgraph=True)(x)
