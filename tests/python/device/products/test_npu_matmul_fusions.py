# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/matmul/matmul_fusions.cc and quant_fusions.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu
from torch.nn import functional as f

from tests.python.device.npu_operators import check, check_gradient, check_refused, integers, normal
from tests.python.device.quantised import packed, saturated, unpacked


def int8(*size: int, seed: int = 0) -> torch.Tensor:
    return integers(-128, 128, *size, dtype=torch.int8, seed=seed)


def rows_to_int8(x, scale=None):
    scale = x.abs().amax(-1) / 127 if scale is None else scale.view(-1)
    return saturated(x / scale.where(scale != 0, 1)[..., None]).double(), scale


@pytest.mark.parametrize("quant_mode", ["pertoken", "pertensor"])
def test_quant_matmul_dequant(quant_mode: str) -> None:
    args = (normal(5, 8), int8(6, 8, seed=1), normal(6, seed=2).abs() / 100)
    kwargs = {"bias": integers(-99, 99, 6, dtype=torch.int32, seed=3), "smooth_scale": normal(8, seed=4)}
    if quant_mode == "pertensor":
        kwargs["x_scale"] = torch.tensor([0.02])

    def reference(x, weight, weight_scale, bias, smooth_scale, x_scale=None, **_):
        values, scale = rows_to_int8(x * smooth_scale, x_scale)
        return (values @ weight.double().t() + bias) * weight_scale * scale[:, None]

    check(torch_npu.npu_quant_matmul_dequant, args, reference, quant_mode=quant_mode, **kwargs)


@pytest.mark.parametrize("approximate", ["gelu_erf", "gelu_tanh"])
def test_quant_matmul_gelu(approximate: str) -> None:
    args = (int8(5, 8), int8(8, 6, seed=1), normal(5, seed=2).abs() / 100, normal(6, seed=3).abs() / 100)

    def reference(a, b, s1, s2, bias, approximate):
        y = a.double() @ b.double() * s2 * s1[:, None] + bias
        return f.gelu(y, approximate="none" if approximate == "gelu_erf" else "tanh")

    check(torch_npu.npu_quant_matmul_gelu, args, reference, bias=normal(6, seed=4), approximate=approximate)


def test_quant_matmul_reduce_sum() -> None:
    kwargs = {"x1_scale": normal(3, 5, seed=2).abs() / 100, "x2_scale": normal(6, seed=3).abs().bfloat16()}

    def reference(a, b, x1_scale, x2_scale):
        return (a.double() @ b.double() * x2_scale * x1_scale[..., None]).sum(0)

    check(torch_npu.npu_quant_matmul_reduce_sum, (int8(3, 5, 8), int8(3, 8, 6, seed=1)), reference, **kwargs)


def test_add_quant_matmul() -> None:
    args = (normal(5, 6), int8(5, 8), int8(8, 6, seed=1), normal(6, seed=2).abs() / 100)
    kwargs = {"x1_scale": normal(5, seed=3).abs()}

    def reference(y, a, b, s2, x1_scale):
        return y + a.double() @ b.double() * s2 * x1_scale[:, None]

    check(torch_npu.npu_add_quant_matmul, args, reference, **kwargs)
    written = args[0].npu()
    out = torch_npu.npu_add_quant_matmul_(written, *(v.npu() for v in args[1:]), x1_scale=kwargs["x1_scale"].npu())
    assert out.data_ptr() == written.data_ptr()
    torch.testing.assert_close(written.cpu().double(), reference(*args, **kwargs), rtol=1e-5, atol=1e-5)


def test_add_quant_matmul_of_packed_scales() -> None:
    """Two scales of blocks of 32 values are one element of 16 bits."""
    x1, x2 = (normal(*size, seed=i).to(torch.float8_e4m3fn) for i, size in enumerate(((5, 128), (128, 6))))
    scales = [integers(124, 131, *size, dtype=torch.uint8, seed=i) for i, size in enumerate(((5, 2, 2), (2, 6, 2)))]
    args = (normal(5, 6, seed=2), x1.view(torch.uint8), x2.view(torch.uint8))
    codes = {"x1_dtype": torch_npu.float8_e4m3fn, "x2_dtype": torch_npu.float8_e4m3fn}
    codes |= {"x1_scale_dtype": torch_npu.float8_e8m0fnu, "x2_scale_dtype": torch_npu.float8_e8m0fnu}

    def factor(scale, axis):
        return (scale.double() - 127).exp2().movedim(-1, axis + 1).flatten(axis, axis + 1).repeat_interleave(32, axis)

    def reference(y, *_, **__):
        return y + (x1.double() * factor(scales[0], 1)) @ (x2.double() * factor(scales[1], 0))

    packed_pairs = [x.view(torch.int16).squeeze(-1) for x in scales]
    for of_x1, of_x2 in (scales, packed_pairs):
        check(torch_npu.npu_add_quant_matmul, (*args, of_x2), reference, x1_scale=of_x1, **codes)
    written = args[0].npu()
    more = {"x1_scale": packed_pairs[0].npu(), **codes}
    torch_npu.npu_add_quant_matmul_(written, *(x.npu() for x in args[1:]), packed_pairs[1].npu(), **more)
    torch.testing.assert_close(written.cpu().double(), reference(args[0].double()), rtol=1e-5, atol=1e-4)


def test_add_quant_matmul_of_hifloat8() -> None:
    x1, x2 = (torch_npu.HiFloat8Tensor.to_hifloat8(normal(*size, seed=i)) for i, size in enumerate(((5, 8), (8, 6))))
    args = (normal(5, 6, seed=2), x1._data, x2._data, torch.full((1,), 0.5))
    codes = {"x1_dtype": torch_npu.hifloat8, "x2_dtype": torch_npu.hifloat8}

    def reference(y, a, b, x2_scale, x1_scale, **_):
        a, b = x1.from_hifloat8(torch.float64), x2.from_hifloat8(torch.float64)
        return y + a @ b * x2_scale * x1_scale[:, None]

    scale = {"x1_scale": normal(5, seed=3).abs()}
    check(torch_npu.npu_add_quant_matmul, args, reference, **scale, **codes)
    written = args[0].npu()
    scale_on_npu = {"x1_scale": scale["x1_scale"].npu()}
    torch_npu.npu_add_quant_matmul_(written, *(x.npu() for x in args[1:]), **scale_on_npu, **codes)
    want = reference(*(x.double() for x in args), **scale)
    torch.testing.assert_close(written.cpu().double(), want, rtol=1e-5, atol=1e-5)


def test_quant_conv2d() -> None:
    args = (int8(2, 4, 6, 6), int8(6, 2, 3, 3, seed=1), normal(6, seed=2).abs() / 1000)

    def reference(x, w, scale, strides, pads, dilations, groups, bias):
        sums = f.conv2d(x.double(), w.double(), bias.double(), strides, pads, dilations, groups)
        return sums * scale[:, None, None]

    bias = integers(-99, 99, 6, dtype=torch.int32, seed=3)
    options = {"strides": [2, 1], "pads": [1, 0], "dilations": [1, 2], "groups": 2}
    check(torch_npu.npu_quant_conv2d, args, reference, bias=bias, **options)


def test_kronecker_quant() -> None:
    args = (normal(3, 4, 16), normal(4, 4, seed=1), normal(16, 16, seed=2))

    def reference(x, a, b, clip_ratio):
        y = a @ x @ b
        scale = y.abs().amax((1, 2)) * clip_ratio / 7
        return saturated(y / scale[:, None, None], -8, 7), scale

    def op(x, a, b, clip_ratio):
        words, scale = torch_npu.npu_kronecker_quant(x, a, b, clip_ratio)
        return words, scale

    words, scale = op(*args, 0.9)
    want, want_scale = reference(*(v.double() for v in args), 0.9)
    assert (unpacked(words) - want).abs().max() <= 1 and torch.allclose(scale.double(), want_scale)
    exact = (integers(-7, 8, 3, 4, 16).float(), torch.eye(4), torch.eye(16))
    exact[0][:, 0, 0] = 7  # the scale is 1, and no value lies between two
    check(op, (*exact, 1.0), lambda *args: (packed(reference(*args)[0]), reference(*args)[1]))


def test_rotate_quant() -> None:
    args = (normal(3, 16), normal(8, 8, seed=1))

    def reference(x, r):
        y, scale = rows_to_int8((x.view(3, 2, 8) @ r).view(3, 16))
        return y.to(torch.int8), scale

    check(torch_npu.npu_rotate_quant, args, reference)


def test_quant_max() -> None:
    x, scale = normal(3, 8, dtype=torch.float16), torch.tensor([100.0])

    def op(x, scale):
        y, largest = torch_npu.npu_quant_max(x, scale)
        return y.view(torch.uint8), largest

    def reference(x, scale):
        return (x * scale).clamp(-57344, 57344).float().to(torch.float8_e5m2).view(torch.uint8), x.abs().max().view(1)

    check(op, (x, scale), reference)


def test_quant_max_to_hifloat8() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    halfway = torch.tensor([1.0625, 40959.0, 40960.0, 1e30, 2.0**-23, 0.99 * 2.0**-23, -0.0, float("nan")])
    x = torch.cat([torch_npu.HiFloat8Tensor(data=codes).from_hifloat8(), halfway, -halfway, normal(99) * 30])

    def op(x, scale):
        return torch_npu.npu_quant_max(x, scale, round_mode="round", dst_dtype=torch_npu.hifloat8)

    def reference(x, scale):
        return torch_npu.HiFloat8Tensor.to_hifloat8((x * scale).float())._data, x.abs().max().view(1)

    assert torch.equal(op(x.npu(), torch.ones(1).npu())[0].cpu(), reference(x, torch.ones(1))[0])
    check(op, (normal(7, 9) * 20, torch.tensor([0.25])), reference)


def test_transpose_quant_batchmatmul() -> None:
    x, weight = int8(5, 4, 8), int8(4, 8, 6, seed=1)
    kwargs = {"x1_scale": normal(5, seed=2).abs() / 100, "x2_scale": normal(6, seed=3).abs() / 100}

    def reference(x, w, dtype, x1_scale, x2_scale, **_):
        return (x.double().transpose(0, 1) @ w.double() * x1_scale[:, None] * x2_scale).transpose(0, 1)

    op = torch_npu.npu_transpose_quant_batchmatmul
    check(op, (x, weight, torch.bfloat16), reference, **kwargs)
    turned = (x, weight.transpose(1, 2).contiguous(), torch.float16)
    check(op, turned, lambda x, w, *args, **kwargs: reference(x, w.transpose(1, 2), *args, **kwargs),
          perm_x1=[1, 0, 2], perm_x2=[0, 2, 1], perm_y=[1, 0, 2], **kwargs)  # fmt: skip


def test_batched_products_are_summed_to_the_output_sizes() -> None:
    a, b = normal(2, 3, 4, 5), normal(3, 5, 6, seed=1)
    op = torch_npu.npu_bmmV2
    check(op, (a, b, []), lambda a, b, sizes: a @ b)
    check(op, (a, b, [6, 4, 6]), lambda a, b, sizes: (a @ b).flatten(0, 1), dynamic=False)
    check(op, (a, b, [3, 1, 6]), lambda a, b, sizes: (a @ b).sum((0, 2))[:, None], dynamic=False)
    check_gradient(lambda a, b: op(a, b, [3, 4, 6]), (a, b), lambda a, b: (a @ b).sum(0))
    with pytest.raises(RuntimeError, match=r"npu_bmmV2: output_sizes is \[2, 6\], which is neither a shape"):
        op(a, b, [2, 6])


def test_backward_of_bmm() -> None:
    a, b, grad = normal(3, 4, 5), normal(3, 5, 6, seed=1), normal(3, 4, 6, seed=2)
    first, second = torch_npu.npu_bmm_v2_mat1_backward, torch_npu.npu_bmm_v2_mat2_backward
    check(first, (grad, a, b, [3, 4, 5]), lambda g, a, b, size: g @ b.transpose(1, 2), dynamic=False)
    check(first, (grad, a[:1], b, [1, 4, 5]), lambda g, a, b, size: (g @ b.transpose(1, 2)).sum(0, True), dynamic=False)
    check(second, (grad, a, b, [3, 5, 6]), lambda g, a, b, size: a.transpose(1, 2) @ g, dynamic=False)


def test_double_backward_of_matmul() -> None:
    a, b, grad = normal(4, 5), normal(5, 6, seed=1), normal(4, 6, seed=2)
    first, second = normal(4, 5, seed=3), normal(5, 6, seed=4)

    def reference(first, second, grad, a, b, mask):
        leaves = [v.clone().requires_grad_() for v in (grad, a, b)]
        outer = [leaves[0] @ leaves[2].t(), leaves[1].t() @ leaves[0]]
        return torch.autograd.grad(outer, leaves, [first, second])

    op = torch.ops.npu.matmul_double_backward
    check(op, (first, second, grad, a, b, [True] * 3), reference)
    got = op(first.npu(), None, grad.npu(), a.npu(), b.npu(), [True, True, False])
    torch.testing.assert_close(got[0].cpu(), first @ b)
    assert not got[1].cpu().any()


@pytest.mark.parametrize("fused_op_type", ["", "16cast32", "add", "mul", "relu", "gelu_erf", "gelu_tanh"])
def test_fused_matmul(fused_op_type: str) -> None:
    args = (normal(5, 8, dtype=torch.float16), normal(8, 6, dtype=torch.float16, seed=1))
    third = {"x3": normal(5, 6, dtype=torch.float16, seed=2)} if fused_op_type in ("add", "mul") else {}

    def reference(a, b, fused_op_type, x3=None):
        y = a @ b
        ends = {"add": lambda: y + x3, "mul": lambda: y * x3, "relu": lambda: f.relu(y), "gelu_erf": lambda: f.gelu(y)}
        ends["gelu_tanh"] = lambda: f.gelu(y, approximate="tanh")
        return ends.get(fused_op_type, lambda: y)()

    check(torch_npu.npu_fused_matmul, args, reference, fused_op_type=fused_op_type, **third)


@pytest.mark.parametrize("has_first", [True, False])
def test_batch_gather_matmul(has_first: bool) -> None:
    y, indices = normal(4, 12), torch.tensor([2, 0, -1, 2])
    x, weight_b = normal(4, 8 if has_first else 3, seed=1), normal(3, 2, 6, 3, seed=2)
    weight_a = normal(3, 2, 3, 8, seed=3) if has_first else None
    options = {"layer_idx": 1, "scale": 0.5, "y_offset": 2, "y_slice_size": 6}

    def reference(y, x, weight_b, indices, weight_a=None, **_):
        y = y.clone()
        for i, k in enumerate(indices.tolist()):
            row = x[i] if weight_a is None else weight_a[k, 1] @ x[i]
            y[i, 2:8] += 0 if k < 0 else 0.5 * weight_b[k, 1] @ row
        return y

    check(torch_npu.npu_batch_gather_matmul, (y, x, weight_b, indices, weight_a), reference, **options)
    written = y.npu()
    args = (v if v is None else v.npu() for v in (x, weight_b, indices, weight_a))
    out = torch_npu.npu_batch_gather_matmul_(written, *args, **options)
    assert out.data_ptr() == written.data_ptr()
    torch.testing.assert_close(written.cpu(), reference(y, x, weight_b, indices, weight_a))


ACTIVATIONS = {
    "relu": f.relu,
    "gelu": f.gelu,
    "fastgelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": f.silu,
    "geglu": lambda x: f.gelu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],
    "swiglu": lambda x: f.silu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],
    "reglu": lambda x: f.relu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1],
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_ffn_applies_each_activation_between_its_products(activation: str) -> None:
    act = ACTIVATIONS[activation]
    inner = 12 if activation.endswith("glu") else 6
    args = (normal(2, 5, 8), normal(8, inner, seed=1), normal(6, 4, seed=2), activation)
    kwargs = {"bias1": normal(inner, seed=3), "bias2": normal(4, seed=4)}

    def reference(x, w1, w2, activation, bias1, bias2):
        return act(x @ w1 + bias1) @ w2 + bias2

    check(torch_npu.npu_ffn, args, reference, **kwargs)
    if activation == "gelu":
        check_gradient(torch_npu.npu_ffn, args, reference, **kwargs)


@pytest.mark.parametrize("tokens", [{"expert_tokens": [2, 0, 3]}, {"expert_tokens_index": [2, 2, 5]}])
def test_ffn_of_experts(tokens: dict[str, list[int]]) -> None:
    args = (normal(5, 8), normal(3, 8, 6, seed=1), normal(3, 6, 4, seed=2), "relu")

    def reference(x, w1, w2, activation, bias1, **_):
        parts = x.split([2, 0, 3])
        return torch.cat([f.relu(p @ w1[i] + bias1[i]) @ w2[i] for i, p in enumerate(parts)])

    check(torch_npu.npu_ffn, args, reference, dynamic=False, bias1=normal(3, 6, seed=3), **tokens)


def test_ffn_of_int8() -> None:
    args = (int8(5, 8), int8(8, 6, seed=1), int8(6, 4, seed=2), "relu")
    kwargs = {
        "scale": torch.tensor([100.0]),
        "offset": torch.tensor([3.0]),
        "deq_scale1": torch.full((6,), 2.0**-15),
        "deq_scale2": torch.full((4,), 2.0**-12),
        "bias2": integers(-9, 9, 4, dtype=torch.int32, seed=3),
    }

    def reference(x, w1, w2, activation, scale, offset, deq_scale1, deq_scale2, bias2):
        hidden = f.relu(x.double() @ w1.double() * deq_scale1)
        return (saturated(hidden * scale + offset).double() @ w2.double() + bias2) * deq_scale2

    check(torch_npu.npu_ffn, args, reference, **kwargs)


def test_ffn_of_quantised_weights() -> None:
    args = (normal(5, 8), int8(8, 6, seed=1), int8(6, 4, seed=2), "silu")
    kwargs = {"antiquant_scale1": normal(6, seed=3).abs() / 50, "antiquant_scale2": normal(4, seed=4).abs() / 50}
    kwargs["antiquant_offset1"] = normal(6, seed=5)

    def reference(x, w1, w2, activation, antiquant_scale1, antiquant_scale2, antiquant_offset1):
        hidden = f.silu(x @ ((w1 + antiquant_offset1) * antiquant_scale1))
        return hidden @ (w2 * antiquant_scale2)

    check(torch_npu.npu_ffn, args, reference, **kwargs)


def test_unsupported_options_and_wrong_sizes_are_refused() -> None:
    x, w, one = normal(5, 8), int8(6, 8), torch.ones(6)
    refused, op = check_refused, "npu_quant_matmul_dequant"
    refused(op, r"x_offset is given, allowed is None", x, w, one, x_offset=one)
    refused(op, r'quant_mode is "pertensor", and x_scale is not given', x, w, one, quant_mode="pertensor")
    refused(op, r'quant_mode is "other", allowed are "pertoken" and "pertensor"', x, w, one, quant_mode="other")
    refused("npu_quant_matmul_gelu", r'approximate is "none", allowed are', w, w.t(), one, one, approximate="none")
    refused("npu_quant_conv2d", r"offset_x is 1, allowed is 0", int8(1, 1, 3, 3), int8(1, 1, 3, 3), one, offset_x=1)
    refused("npu_rotate_quant", r"rotation is of 3 values, which do not divide .* x, 8", x, normal(3, 3))
    refused("npu_rotate_quant", r"allowed are alpha None, axis -1", x, normal(4, 4), axis=0)
    refused("npu_quant_max", r'allowed are round_mode "rint" and group_list None', x, one, group_list=one.long())
    batches = (int8(5, 4, 8), int8(4, 8, 6), torch.float16)
    refused("npu_transpose_quant_batchmatmul", r"x1_scale or x2_scale is None, allowed are tensors", *batches)
    refused("npu_fused_matmul", r'fused_op_type is "tanh", allowed are', x, normal(8, 6), fused_op_type="tanh")
    refused(
        "npu_fused_matmul", r'x3 is None with fused_op_type "add", it belongs to', x, normal(8, 6), fused_op_type="add"
    )
    refused("npu_ffn", r'activation is "tanh", allowed are relu, gelu', x, normal(8, 6), normal(6, 4), "tanh")
    refused("npu_ffn", r"x is of type Char, and scale is not given", w, w.t(), int8(6, 4), "relu")
    tokens = {"expert_tokens": [5], "expert_tokens_index": [5]}
    refused(
        "npu_ffn", r"expert_tokens and expert_tokens_index are given", x, normal(8, 6), normal(6, 4), "relu", **tokens
    )
    lora = (normal(4, 12), normal(4, 3), normal(3, 2, 6, 3), torch.zeros(4).long())
    refused("npu_batch_gather_matmul", r"weight_b gives 6 columns, and y_slice_size says 12", *lora)
