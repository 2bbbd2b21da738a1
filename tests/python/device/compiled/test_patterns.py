# SPDX-License-Identifier: Apache-2.0
"""The built-in replacement rules: where each matches, and each of the conditions without which it must not."""

from __future__ import annotations

import pytest
import torch
import torch_npu

import npugraph
import npugraph_ex
from npugraph.fx.passes.patterns import FAMILIES

H = 64


@pytest.fixture(autouse=True)
def fresh():
    npugraph.reset()


def tensors(*sizes, dtype=torch.float16, device="npu"):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(size, generator=generator).to(dtype).to(device) for size in sizes]


def norm_inputs(dtype=torch.float16, h=H, device="npu"):
    x1, x2, gamma, scales = tensors((4, 6, h), (4, 6, h), (h,), (h,), dtype=dtype, device=device)
    return x1, x2, gamma, scales.abs() + 0.5


def compiled(fn, *inputs, dynamic=False, **options):
    """Checks that the results of ``fn`` are those of eager mode, and int8 results to one step, since a fused operator
    may round once less. Returns the artifact."""
    options.setdefault("verify", True)
    with torch.no_grad():
        got = torch.compile(fn, backend="npugraph_ex", options=options, dynamic=dynamic)(*inputs)
        want = fn(*inputs)
    for a, b in zip(got, want, strict=True):
        assert (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device)
        step = 1.0 if b.dtype == torch.int8 else 0.0
        torch.testing.assert_close(a.double(), b.double(), rtol=2e-3, atol=max(step, 2e-3))
    return npugraph.artifacts()[-1]


def norm(x1, x2, gamma, *epsilon):
    y, _, x = torch_npu.npu_add_rms_norm(x1, x2, gamma, *epsilon)
    return y, x


def quantise_all(x1, x2, gamma, scales, *epsilon):
    y, x = norm(x1, x2, gamma, *epsilon)
    q, scale = torch_npu.npu_dynamic_quant(y, smooth_scales=scales)
    return q, x, scale


def quantise(x1, x2, gamma, scales, *epsilon):
    q, _, scale = quantise_all(x1, x2, gamma, scales, *epsilon)
    return q, scale


def flatten(x1, x2, gamma, scales, *epsilon):
    y, x = norm(x1, x2, gamma, *epsilon)
    q, scale = torch_npu.npu_dynamic_quant(y.flatten(0, 1))
    return q, x, scale.view(-1, 1)


def cast(x1, x2, gamma, scales, *epsilon):
    y, x = norm(x1, x2, gamma, *epsilon)
    return y.float(), y, x


def cast_rows(x1, x2, gamma, scales, *epsilon):
    y, x = norm(x1, x2, gamma, *epsilon)
    return y.view(-1, y.shape[-1]).float(), y, x


def dtype_cast(x1, x2, gamma, scales, *epsilon):
    y, x = norm(x1, x2, gamma, *epsilon)
    return torch_npu._npu_dtype_cast(y, torch.float32), y, x


def dtype_cast_rows(x1, x2, gamma, scales, *epsilon):
    y, x = norm(x1, x2, gamma, *epsilon)
    return torch_npu._npu_dtype_cast(y.view(-1, y.shape[-1]), torch.float32), y, x


def static_quantise(x1, x2, gamma, scales, *epsilon):
    y, x = norm(x1, x2, gamma, *epsilon)
    return torch_npu.npu_quantize(y, scales, torch.ones_like(scales), torch.int8, -1, True), x


def static_quantise_no_sum(x1, x2, gamma, scales, *epsilon):
    y, _ = norm(x1, x2, gamma, *epsilon)
    return (torch_npu.npu_quantize(y, scales, None, torch.qint8, -1, True),)


NORMS = {
    "add_rms_norm_dynamic_quant": (quantise_all, "npu.npu_add_rms_norm_dynamic_quant.default"),
    "add_rms_norm_dynamic_quant_no_sum": (quantise, "npu.npu_add_rms_norm_dynamic_quant.default"),
    "add_rms_norm_flatten_dynamic_quant": (flatten, "npu.npu_add_rms_norm_dynamic_quant.default"),
    "add_rms_norm_cast_to_copy": (cast, "npu.npu_add_rms_norm_cast.default"),
    "add_rms_norm_view_cast_to_copy": (cast_rows, "npu.npu_add_rms_norm_cast.default"),
    "add_rms_norm_cast_dtype_cast": (dtype_cast, "npu.npu_add_rms_norm_cast.default"),
    "add_rms_norm_view_cast_dtype_cast": (dtype_cast_rows, "npu.npu_add_rms_norm_cast.default"),
    "add_rms_norm_quantize": (static_quantise, "npu.npu_add_rms_norm_quant.default"),
    "add_rms_norm_quantize_no_sum": (static_quantise_no_sum, "npu.npu_add_rms_norm_quant.default"),
}


@pytest.mark.feature("2.05", "2.06", "2.07", "2.08b", "12e.3")
@pytest.mark.parametrize("epsilon", [(), (1e-5,), (2e-6,)])
@pytest.mark.parametrize("rule", NORMS)
def test_normalisations_are_replaced_by_fused_operators(rule, epsilon) -> None:
    fn, fused = NORMS[rule]
    artifact = compiled(lambda *xs: fn(*xs, *epsilon), *norm_inputs())
    (made,) = artifact.replacements
    assert made.rule == rule + "_epsilon" * bool(epsilon)
    assert "npu.npu_add_rms_norm.default" in made.removed
    assert made.added[0] == fused
    assert made.source.startswith(__file__)
    assert not artifact.near_misses
    assert fused.removesuffix(".default") in artifact.graph("pattern_fusion_pass")
    assert "npu_add_rms_norm.default" not in artifact.graph("pattern_fusion_pass")
    assert f"{made.rule}: " in artifact.explain()


@pytest.mark.feature("2.05", "2.06", "12b.5")
@pytest.mark.parametrize("rule", ["add_rms_norm_dynamic_quant", "add_rms_norm_flatten_dynamic_quant"])
def test_norms_of_changing_sizes(rule) -> None:
    artifact = compiled(NORMS[rule][0], *norm_inputs(), dynamic=True)
    assert [made.rule for made in artifact.replacements] == [rule]


def test_on_cpu_tensors() -> None:
    artifact = compiled(quantise_all, *norm_inputs(device="cpu"))
    assert [made.rule for made in artifact.replacements] == ["add_rms_norm_dynamic_quant"]


@pytest.mark.feature("1.14")
def test_pattern_fusion_pass_off() -> None:
    artifact = compiled(quantise_all, *norm_inputs(), pattern_fusion_pass=False)
    assert not artifact.replacements
    assert not artifact.near_misses


def returned_too(x1, x2, gamma, scales):
    y, x = norm(x1, x2, gamma)
    q, scale = torch_npu.npu_dynamic_quant(y, smooth_scales=scales)
    return q, x, scale, y


def another_keyword(x1, x2, gamma, scales):
    y, x = norm(x1, x2, gamma)
    q, scale = torch_npu.npu_dynamic_quant(y, smooth_scales=scales, dst_type=torch.int8, quant_mode="pertensor")
    return q, x, scale


def other_rows(x1, x2, gamma, scales):
    y, x = norm(x1, x2, gamma)
    q, scale = torch_npu.npu_dynamic_quant(y.view(8, 3 * H))
    return q, x, scale.view(-1, 1)


def scales_as_row(x1, x2, gamma, scales):
    y, x = norm(x1, x2, gamma)
    q, scale = torch_npu.npu_dynamic_quant(y.flatten(0, 1))
    return q, x, scale.view(1, -1)


def cast_to_bfloat16(x1, x2, gamma, scales):
    y, x = norm(x1, x2, gamma)
    return y.bfloat16(), y, x


def cast_and_more(x1, x2, gamma, scales):
    y, x = norm(x1, x2, gamma)
    return y.float(), y, x, y * 2


def cast_of_other_rows(x1, x2, gamma, scales):
    y, x = norm(x1, x2, gamma)
    return y.view(-1, H // 2).float(), y, x


def int8_zero_points(x1, x2, gamma, scales):
    y, x = norm(x1, x2, gamma)
    return torch_npu.npu_quantize(y, scales, torch.ones_like(scales, dtype=torch.int8), torch.int8, -1, True), x


def to_int32(x1, x2, gamma, scales):
    y, x = norm(x1, x2, gamma)
    return torch_npu.npu_quantize(y, scales, None, torch.qint32, -1, True), x


def one_scale(x1, x2, gamma, scales):
    y, x = norm(x1, x2, gamma)
    return torch_npu.npu_quantize(y, scales[:1], None, torch.int8, -1, True), x


def uint8_zero_points(x1, x2, gamma, scales):
    y, x = norm(x1, x2, gamma)
    return torch_npu.npu_quantize(y, scales, torch.ones_like(scales, dtype=torch.uint8), torch.int8, -1, True), x


def multiplied(x1, x2, gamma, scales):
    y, x = norm(x1, x2, gamma)
    return torch_npu.npu_quantize(y, scales, None, torch.int8, -1, False), x


def cast_with_more(x1, x2, gamma, scales):
    y, x = norm(x1, x2, gamma)
    y32 = torch.ops.aten._to_copy.default(y, dtype=torch.float32, memory_format=torch.contiguous_format)
    return y32, y, x


def flatten_and_smooth(x1, x2, gamma, scales):
    y, x = norm(x1, x2, gamma)
    q, scale = torch_npu.npu_dynamic_quant(y.flatten(0, 1), smooth_scales=scales)
    return q, x, scale.view(-1, 1)


def deviation_too(x1, x2, gamma, scales):
    y, deviation, x = torch_npu.npu_add_rms_norm(x1, x2, gamma)
    q, scale = torch_npu.npu_dynamic_quant(y, smooth_scales=scales)
    return q, x, scale, deviation


REFUSED = {
    uint8_zero_points: "does not hold: zero_points are not of type int8 or uint8: they are of torch.uint8",
    multiplied: "npu_quantize is given 6 positional arguments, and in the pattern 5",  # div_mode, true by default
    cast_with_more: "does not hold: calls have only the keyword arguments of the pattern: _to_copy has memory_format",
    flatten_and_smooth: "does not hold: calls have only the keyword arguments of the pattern: npu_dynamic_quant has sm",
    deviation_too: "npu_add_rms_norm has 3 readers, and the pattern 2",
    returned_too: "has 2 readers, and the pattern 1",
    another_keyword: "does not hold: calls have only the keyword arguments of the pattern: npu_dynamic_quant has ",
    other_rows: "is viewed with its first two dimensions merged: view makes (8, 192) of (4, 6, 64)",
    scales_as_row: "does not hold: the scales are viewed as a column: view_1 makes (1, 24) of (24,)",
    cast_to_bfloat16: "with the sizes and numbers of this graph the pattern is another one",
    cast_and_more: "does not hold: the norm's result has two readers, the conversion and another: it has 3",
    cast_of_other_rows: "with the sizes and numbers of this graph the pattern is another one",
    int8_zero_points: "does not hold: zero_points are not of type int8 or uint8: they are of torch.int8",
    to_int32: "does not hold: the type that is asked for is int8 or qint8: it is 14",
    one_scale: "does not hold: gamma and scales have one shape: they have (64,) and (1,)",
}


@pytest.mark.feature("2.05", "2.06", "2.07", "2.08b", "2.08c")
@pytest.mark.parametrize("fn", REFUSED, ids=lambda fn: fn.__name__)
def test_norms_that_nearly_match(fn) -> None:
    artifact = compiled(fn, *norm_inputs())
    assert not artifact.replacements
    reasons = [miss.reason for miss in artifact.near_misses]
    assert any(REFUSED[fn] in reason for reason in reasons), reasons
    assert all(miss.source.startswith(__file__) for miss in artifact.near_misses)
    assert "Patterns that nearly matched" in artifact.explain()


@pytest.mark.feature("2.08b")
@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        (
            norm_inputs(torch.float32),
            "both of float16 or both of bfloat16: they are of torch.float32 and torch.float32",
        ),
        (norm_inputs(h=24), "a row has a fixed number of bytes, a multiple of 32: it has 48"),
    ],
    ids=["types", "bytes"],
)
def test_operands_of_the_static_quantisation(inputs, reason) -> None:
    artifact = compiled(static_quantise, *inputs)
    assert not artifact.replacements
    assert [reason in miss.reason for miss in artifact.near_misses] == [True]


B, M, K, N = 3, 5, 128, 256

BMMS = {
    "transpose_expand_view_bmm_view_transpose": lambda x, w: (
        torch.bmm(x.transpose(0, 1).expand(B, M, K).view(B, M, K), w).view(B, M, N).transpose(0, 1)
    ),
    "transpose_expand_bmm_transpose": lambda x, w: torch.bmm(x.transpose(0, 1).expand(B, M, K), w).transpose(0, 1),
    "bmm_transpose": lambda x, w: torch.bmm(x, w).transpose(0, 1),
    "bmm_view_transpose": lambda x, w: torch.bmm(x, w).view(B, M, N).transpose(0, 1),
}


@pytest.mark.feature("2.08a", "12e.3")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rule", BMMS)
def test_batched_products(rule, dtype) -> None:
    """The removal of no-ops is off. It would remove views that change nothing before the rules see them."""
    x, w = tensors((M, B, K) if rule.startswith("transpose") else (B, M, K), (B, K, N), dtype=dtype)
    artifact = compiled(lambda x, w: (BMMS[rule](x, w),), x / 16, w, remove_noop_ops=False)
    (made,) = artifact.replacements
    assert made.rule == rule
    assert made.added == ("npu.npu_transpose_batchmatmul.default",)
    perm = "[1, 0, 2]" if rule.startswith("transpose") else "[0, 1, 2]"
    assert f"perm_x1 = {perm}" in artifact.graph("pattern_fusion_pass")


@pytest.mark.feature("2.08a")
@pytest.mark.parametrize(
    ("fn", "sizes", "reason"),
    [
        (lambda x, w: torch.bmm(x, w).transpose(-1, -2), (K, N), "transpose exchanges the first two of three dim"),
        (lambda x, w: torch.bmm(x, w).transpose(0, 2), (K, N), "transpose exchanges [0, 2]"),
        (lambda x, w: torch.bmm(x, w).transpose(0, 1), (64, N), "multiples of 128: they are (3, 5, 64)"),
        (lambda x, w: torch.bmm(x, w).transpose(0, 1), (K, 64), "multiples of 128: they are (3, 5, 128)"),
        (lambda x, w: torch.bmm(x.double(), w.double()).transpose(0, 1), (K, N), "bfloat16, float16 or float32"),
        (lambda x, w: torch.bmm(x, w).view(5, 3, N).transpose(0, 1), (K, N), "views and expand change nothing: view"),
    ],
)
def test_batched_products_that_nearly_match(fn, sizes, reason) -> None:
    x, w = tensors((B, M, sizes[0]), (B, sizes[0], sizes[1]), dtype=torch.float32)
    artifact = compiled(lambda x, w: (fn(x, w),), x, w)
    assert not artifact.replacements
    assert any(reason in miss.reason for miss in artifact.near_misses), artifact.near_misses


@pytest.mark.feature("2.08a")
def test_products_that_sum_too_much() -> None:
    x, w = tensors((1, 1, 65536), (1, 65536, 128), dtype=torch.float32)
    artifact = compiled(lambda x, w: (torch.bmm(x / 256, w / 256).transpose(0, 1),), x, w)
    assert not artifact.replacements
    assert "is from 1 to 65535" in artifact.near_misses[0].reason


@pytest.mark.feature("2.08a")
@pytest.mark.parametrize(("batches", "rule"), [(511, "transpose_expand_bmm_transpose"), (512, "bmm_transpose")])
def test_the_bound_of_transposed_operands(batches, rule) -> None:
    """The summed size times the batches has a limit for rules that transpose x1. Beyond it a later rule matches, which
    takes x1 as it is."""
    x, w = tensors((1, batches, 128), (batches, 128, 128), dtype=torch.bfloat16)
    fn = lambda x, w: (torch.bmm(x.transpose(0, 1).expand(batches, 1, 128), w).transpose(0, 1),)  # noqa: E731
    artifact = compiled(fn, x / 16, w / 16, remove_noop_ops=False, verify=False)
    assert [made.rule for made in artifact.replacements] == [rule]


@pytest.mark.feature("2.08a")
def test_bounds_on_sizes_that_change_are_guards() -> None:
    fn = torch.compile(lambda x, w: torch.bmm(x, w).transpose(0, 1), backend="npugraph_ex", dynamic=True)
    for summed, fused in ((128, [True]), (256, [True]), (192, [True, False]), (384, [True, False])):
        x, w = tensors((B, M, summed), (B, summed, N), dtype=torch.float32)
        with torch.no_grad():
            torch.testing.assert_close(fn(x, w), torch.bmm(x, w).transpose(0, 1), rtol=1e-4, atol=1e-3)
        assert [bool(artifact.replacements) for artifact in npugraph.artifacts()] == fused


def _dynamic_quant(y, x, scales):
    q, scale = torch_npu.npu_dynamic_quant(y, smooth_scales=scales)
    return q, x, scale


def _flatten_dynamic_quant(y, x, scales):
    q, scale = torch_npu.npu_dynamic_quant(y.flatten(0, 1))
    return q, x, scale.view(-1, 1)


ENDS = {
    "add_rms_norm_dynamic_quant": _dynamic_quant,
    "add_rms_norm_flatten_dynamic_quant": _flatten_dynamic_quant,
    "add_rms_norm_cast": lambda y, x, scales: (y.float(), y, x),
    "add_rms_norm_quantize": lambda y, x, scales: (torch_npu.npu_quantize(y, scales, None, torch.int8, -1, True), x),
    "bmm_transpose": None,
}


@pytest.mark.feature("2.08c")
@pytest.mark.parametrize("family", [family for family, _ in FAMILIES])
def test_no_rule_matches_across_streams(family) -> None:
    marks, end = torch.ops.npugraph_ex, ENDS[family]

    def on_side(function, *args):
        marks.tagged_stream_wait_stream("side", "main")
        marks.scope_enter(["_user_stream_label"], ["side"])
        results = function(*args)
        marks.scope_exit()
        marks.tagged_stream_wait_stream("main", "side")
        return results

    if end is None:
        inputs = tensors((B, M, K), (B, K, N), dtype=torch.float32)
        artifact = compiled(lambda x, w: (on_side(torch.bmm, x, w).transpose(0, 1) * 2,), *inputs)
    else:
        artifact = compiled(lambda x1, x2, g, s: end(*on_side(norm, x1, x2, g), s), *norm_inputs())
    assert not artifact.replacements
    reasons = [miss.reason for miss in artifact.near_misses if family in miss.rule]
    assert ["all operators are on one stream" in reason for reason in reasons] == [True], artifact.near_misses


@pytest.mark.feature("2.08b")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_quantised_norm_is_the_pair_to_the_bit(dtype) -> None:
    """The fused operator rounds the norm to 16 bits before it quantises, as the pair does."""
    x1, x2, gamma, scales = tensors((64, 256), (64, 256), (256,), (256,), dtype=dtype)
    inputs = x1, x2, gamma, scales.abs() / 50 + 0.01
    with torch.no_grad():
        want = static_quantise_no_sum(*inputs)
        got = torch.compile(static_quantise_no_sum, backend="npugraph_ex")(*inputs)
    assert [made.rule for made in npugraph.artifacts()[-1].replacements] == ["add_rms_norm_quantize_no_sum"]
    assert torch.equal(got[0], want[0])
    assert torch.equal(torch_npu.npu_add_rms_norm_quant(*inputs, None)[0], want[0])


@pytest.mark.feature("2.05")
def test_a_quantisation_without_smooth_scales() -> None:
    """``compiled`` checks the numbers. Here they are compared to the bit with those for scales of 1."""

    def fn(x1, x2, gamma, scales):
        y, x = norm(x1, x2, gamma)
        q, scale = torch_npu.npu_dynamic_quant(y)
        return q, x, scale

    artifact = compiled(fn, *norm_inputs())
    assert [made.rule for made in artifact.replacements] == ["add_rms_norm_dynamic_quant"]
    x1, x2, gamma, scales = norm_inputs()
    npugraph.reset()
    with torch.no_grad():
        run = torch.compile(fn, backend="npugraph_ex")
        want = torch.compile(quantise_all, backend="npugraph_ex")(x1, x2, gamma, torch.ones_like(scales))
        for a, b in zip(run(x1, x2, gamma, scales), want, strict=True):
            assert torch.equal(a, b)


@pytest.mark.feature("12b.3")
def test_negative_dimensions_count_from_the_end() -> None:
    """Defect 3 of Ascend's backend: its rule checked an upper bound only, and took -1 and -2 for 0 and 1."""
    x, w = tensors((B, M, K), (B, K, N), dtype=torch.float32)
    artifact = compiled(lambda x, w: (torch.bmm(x, w).transpose(-2, -3),), x, w)
    assert [made.rule for made in artifact.replacements] == ["bmm_transpose"]


@pytest.mark.feature("12e.3")
def test_all_rules_are_listed() -> None:
    names = [rule.name for rule in npugraph_ex.replacements() if rule.source == "built-in"]
    norms = [name + suffix for name in NORMS for suffix in ("", "_epsilon")]
    assert sorted(names) == sorted([*norms, *BMMS])
    assert len(FAMILIES) == 5
