# SPDX-License-Identifier: Apache-2.0
"""Layers of torch_npu.contrib that are made of several operators."""

from __future__ import annotations

import math

import numpy
import pytest
import torch
import torch_npu
from torch_npu import contrib
from torch_npu.contrib.module.deform_conv import ModulatedDeformConv2dFunction
from torch_npu.contrib.module.multihead_attention import Matmul_transpose


@pytest.mark.parametrize("boxes_of_classes", [False, True])
def test_best_boxes_of_all_classes(boxes_of_classes: bool):
    boxes = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 9], [20, 20, 30, 30]]).npu()
    scores = torch.tensor([[0.9, 0.1], [0.8, 0.7], [0.6, 0.01]]).npu()
    given = boxes.repeat(1, 2) if boxes_of_classes else boxes
    dets, labels = contrib.npu_multiclass_nms(given, scores, max_num=6)
    expected = torch.zeros(6, 5)
    for i, (place, score) in enumerate([(0, 0.9), (1, 0.7), (2, 0.6)]):
        expected[i] = torch.tensor([*boxes[place].tolist(), score])
    assert torch.equal(dets.cpu(), expected) and labels.tolist() == [0, 1, 0, 0, 0, 0]
    factors = torch.tensor([0.1, 1, 1]).npu()
    dets, labels = contrib.npu_multiclass_nms(given, scores, 0.05, 0.45, 2, factors)
    assert dets[:, :4].tolist() == boxes[1:2].tolist() * 2 and labels.tolist() == [0, 1]
    both, of_both = contrib.npu_batched_multiclass_nms(
        given.expand(2, -1, -1), scores.expand(2, -1, -1), max_num=2, score_factors=torch.stack([factors, factors])
    )
    assert torch.equal(both, dets.expand(2, -1, -1)) and torch.equal(of_both, labels.expand(2, -1))


def test_attention_of_bert():
    torch.manual_seed(0)
    batches, rows, size = 2, 5, 128
    x = torch.randn(batches * rows, size, requires_grad=True, device="npu")
    kernels = [(torch.randn(size, size, device="npu") / 8).requires_grad_() for _ in range(3)]
    biases = [torch.randn(size, device="npu", requires_grad=True) for _ in range(3)]
    gamma, beta = torch.randn(2, size, device="npu")
    mask = torch.zeros(batches, 1, rows, rows, device="npu")
    mask[1, :, :, 3:] = -10000

    def expected(x):
        q, k, v = (
            (x @ kernel + bias).view(batches, rows, 2, 64).transpose(1, 2)
            for kernel, bias in zip(kernels, biases, strict=True)
        )
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.125)
        return out.transpose(1, 2).reshape(batches * rows, size)

    got = contrib.npu_fused_attention(x, mask, *kernels, *biases, 0.125, 1)
    torch.testing.assert_close(got, expected(x), rtol=1e-4, atol=1e-4)
    gradients = [torch.autograd.grad(y.square().sum(), [x, *kernels]) for y in (got, expected(x))]
    for found, right in zip(*gradients, strict=True):
        torch.testing.assert_close(found, right, rtol=1e-3, atol=1e-3)
    norm, got = contrib.npu_fused_attention_with_layernorm(x, mask, *kernels, *biases, gamma, beta, 0.125, 1)
    torch.testing.assert_close(norm, torch.nn.functional.layer_norm(x, (size,), gamma, beta))
    torch.testing.assert_close(got, expected(norm), rtol=1e-4, atol=1e-4)
    with pytest.raises(
        ValueError, match="npu_fused_attention: hidden_states has rows of 100, allowed are multiples of 64"
    ):
        contrib.npu_fused_attention(x[:, :100], mask, *kernels, *biases)


def _rows(x: torch.Tensor) -> torch.Tensor:
    return x.flatten(0, 1)


@pytest.mark.parametrize(("add_bias_kv", "add_zero_attn"), [(False, False), (True, True)])
def test_attention_with_several_heads(add_bias_kv: bool, add_zero_attn: bool):
    torch.manual_seed(0)
    ours = contrib.MultiheadAttention(8, 2, 6, 4, add_bias_kv=add_bias_kv, add_zero_attn=add_zero_attn).npu()
    theirs = torch.nn.MultiheadAttention(
        8, 2, kdim=6, vdim=4, add_bias_kv=add_bias_kv, add_zero_attn=add_zero_attn, batch_first=True, device="npu"
    )
    with torch.no_grad():
        for name in "qkv":
            getattr(theirs, f"{name}_proj_weight").copy_(getattr(ours, f"{name}_proj").weight)
        theirs.in_proj_bias.copy_(torch.cat([getattr(ours, f"{name}_proj").bias for name in "qkv"]))
        theirs.out_proj.load_state_dict(ours.out_proj.state_dict())
        if add_bias_kv:
            theirs.bias_k.copy_(ours.bias_k), theirs.bias_v.copy_(ours.bias_v)
    q, k, v = (torch.randn(3, rows, size, device="npu") for rows, size in ((4, 8), (5, 6), (5, 4)))
    padding = torch.zeros(3, 5, dtype=torch.bool, device="npu")
    padding[1, 3:] = True
    mask = torch.randn(4, 5, device="npu")
    got, weights = ours(_rows(q), _rows(k), _rows(v), 3, 4, 5, padding, attn_mask=mask)
    as_mask = torch.zeros_like(padding, dtype=torch.float32).masked_fill(padding, -math.inf)
    want, want_weights = theirs(q, k, v, key_padding_mask=as_mask, attn_mask=mask)
    torch.testing.assert_close(got, _rows(want))
    torch.testing.assert_close(weights, want_weights)
    _, of_heads = ours(_rows(q), _rows(k), _rows(v), 3, 4, 5, padding, attn_mask=mask, need_head_weights=True)
    assert of_heads.shape[:3] == (2, 3, 4)
    torch.testing.assert_close(of_heads.mean(0), weights)
    scores, values = ours(_rows(q), _rows(k), _rows(v), 3, 4, 5, padding, attn_mask=mask, before_softmax=True)
    torch.testing.assert_close(scores.softmax(-1), of_heads.transpose(0, 1))
    assert values.shape == (3, 2, weights.shape[2], 4)
    without = ours(_rows(q), _rows(k), _rows(v), 3, 4, 5, padding, need_weights=False)
    assert without[1] is None
    torch.testing.assert_close(ours.multi_attn(_rows(q), _rows(k), _rows(v), padding, 3, 4), without[0])


def test_attention_row_by_row():
    torch.manual_seed(0)
    layer = contrib.MultiheadAttention(8, 2, self_attention=True).npu().eval()
    x = torch.randn(2, 4, 8, device="npu")
    padding = torch.zeros(2, 4, dtype=torch.bool, device="npu")
    padding[1, 0] = True
    later = torch.full((4, 4), -math.inf, device="npu").triu(1)
    whole, _ = layer(_rows(x), None, None, 2, 4, 4, padding, attn_mask=later)
    state: dict = {}
    for row in range(4):
        got, weights = layer(x[:, row], None, None, 2, 1, 1, padding[:, row : row + 1], incremental_state=state)
        assert weights.shape == (2, 1, row + 1)
        if row:  # all keys of the first row of one sequence are masked
            torch.testing.assert_close(got, whole.view(2, 4, 8)[:, row])

    memory = torch.randn(2 * 3, 8, device="npu")
    layer = contrib.MultiheadAttention(8, 2, encoder_decoder_attention=True).npu().eval()
    state = {}
    first, _ = layer(x[:, 0], memory, memory, 2, 1, 3, incremental_state=state, static_kv=True)
    again, _ = layer(x[:, 0], None, None, 2, 1, 3, incremental_state=state, static_kv=True)
    assert torch.equal(first, again)
    assert torch.equal(first, layer(x[:, 0], memory, None, 2, 1, 3)[0])


def test_attention_in_training_and_its_weights():
    layer = contrib.MultiheadAttention(8, 2, dropout=0.5, q_noise=0.5, qn_block_size=4)
    x = torch.randn(6, 8)
    torch.manual_seed(0)
    assert not torch.equal(layer(x, x, x, 2, 3, 3)[0], layer(x, x, x, 2, 3, 3)[0])
    layer.eval()
    assert torch.equal(layer(x, x, x, 2, 3, 3)[0], layer(x, x, x, 2, 3, 3)[0])
    old = {f"a.in_proj_{kind}": torch.cat([layer.get_parameter(f"{p}_proj.{kind}") for p in "qkv"]) for kind in
           ("weight", "bias")}  # fmt: skip
    layer.upgrade_state_dict_named(old, "a")
    assert sorted(old) == sorted(f"a.{p}_proj.{kind}" for p in "qkv" for kind in ("weight", "bias"))
    assert torch.equal(old["a.k_proj.weight"], layer.k_proj.weight)
    assert layer.prepare_for_onnx_export_() is layer.prepare_for_tpu_() is None
    torch.testing.assert_close(Matmul_transpose(x, x), x @ x.T)
    with pytest.raises(ValueError, match="MultiheadAttention: embed_dim is 8, allowed are multiples of 3 heads"):
        contrib.MultiheadAttention(8, 3)
    with pytest.raises(ValueError, match="kdim is 6, vdim is 8, with self_attention allowed is 8"):
        contrib.MultiheadAttention(8, 2, kdim=6, self_attention=True)


def test_deformable_convolutions():
    torch.manual_seed(0)
    layer = contrib.ModulatedDeformConv(4, 6, 3, padding=1, deformable_groups=2).npu()
    x = torch.randn(2, 4, 5, 6, device="npu", requires_grad=True)
    plain = torch.nn.functional.conv2d(x, layer.weight, padding=1)
    torch.testing.assert_close(layer(x), plain / 2, rtol=1e-4, atol=1e-4)
    with torch.no_grad():
        for parameter in layer.conv_offset.parameters():
            parameter.normal_()
    layer(x).sum().backward()
    assert all(one.grad is not None and one.grad.abs().sum() > 0 for one in (x, *layer.parameters()))

    given = contrib.ModulatedDeformConv(4, 6, 3, padding=1, deformable_groups=2, bias=False, pack=False).npu()
    offset = torch.randn(2, 36, 5, 6, device="npu", requires_grad=True)
    mask = torch.rand(2, 18, 5, 6, device="npu", requires_grad=True)
    order = [*range(1, 36, 2), *range(0, 36, 2)]
    both = torch.cat([offset[:, order], mask], 1)
    want, _ = torch_npu.npu_deformable_conv2d(
        x, given.weight, both, None, [3, 3], [1] * 4, [1] * 4, deformable_groups=2
    )
    got = given((x, offset, mask))
    torch.testing.assert_close(got, want)
    leaves = (x, offset, mask, given.weight)
    back = torch.tensor(order).argsort()
    named = ModulatedDeformConv2dFunction.apply(
        x, offset, mask, given.weight, None, False, 1, 1, 1, 1, 2, torch.tensor(order), back
    )
    gradients = [torch.autograd.grad(y.square().sum(), leaves) for y in (want, got, named)]
    for right, *found in zip(*gradients, strict=True):
        for one in found:
            torch.testing.assert_close(one, right, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="ModulatedDeformConv: 4 and 6 channels in 4 groups"):
        contrib.ModulatedDeformConv(4, 6, 3, groups=4)


def test_scores_of_regions_by_position():
    features = torch.randn(2, 18, 6, 7, device="npu")
    rois = torch.tensor([[[0.0, 1], [1, 3], [2, 3], [14, 9], [11, 20]]] * 2, device="npu")
    layer = contrib.PSROIPool(3, 3, 0.25, 3, 2)
    assert torch.equal(layer(features, rois), torch_npu.npu_ps_roi_pooling(features, rois, 0.25, 3, 2))
    with pytest.raises(ValueError, match="PSROIPool: pooled_height is 2, pooled_width is 3, allowed is group_size, 3"):
        contrib.PSROIPool(2, 3, group_size=3)


def _fixed(**factors: float) -> contrib.FusedColorJitter:
    return contrib.FusedColorJitter(**{name: (factor, factor) for name, factor in factors.items()})


def test_colour_jitter_follows_its_definitions():
    torch.manual_seed(0)
    image = torch.rand(2, 3, 4, 5, device="npu") * 0.5
    luminance = (image * torch.tensor([0.299, 0.587, 0.114], device="npu").view(3, 1, 1)).sum(1, keepdim=True)
    mean = luminance.mean((2, 3), keepdim=True)
    for jitter, want in (
        (contrib.FusedColorJitter(), image),
        (_fixed(brightness=1.5), image * 1.5),
        (_fixed(contrast=0.5), image * 0.5 + mean * 0.5),
        (_fixed(saturation=0.25), image * 0.25 + luminance * 0.75),
        (_fixed(brightness=1.5, contrast=0.5, saturation=0), luminance * 0.75 + mean * 0.75),
        (_fixed(brightness=9), (image * 9).clamp(max=1)),
    ):
        torch.testing.assert_close(jitter(image), want.expand_as(image), rtol=1e-4, atol=1e-5)
    turned = _fixed(hue=0.5)(image)
    back = _fixed(hue=-0.5)(image)
    torch.testing.assert_close(turned, back, rtol=1e-3, atol=1e-4)
    grey = torch.full((3, 2, 2), 0.3)
    torch.testing.assert_close(_fixed(hue=0.2, saturation=2)(grey), grey, rtol=1e-4, atol=1e-4)


def test_colours_of_images():
    array = numpy.random.default_rng(0).integers(0, 256, (4, 5, 3), dtype=numpy.uint8)
    jitter = contrib.FusedColorJitter(0.5, 0.5, 0.5, (-0.1, 0.1))
    torch.manual_seed(1)
    first = jitter(array)
    assert first.dtype == numpy.uint8 and not numpy.array_equal(first, jitter(array))
    assert numpy.array_equal(contrib.FusedColorJitter()(array), array)
    torch.manual_seed(1)
    as_tensor = jitter(torch.from_numpy(array).permute(2, 0, 1))
    assert numpy.array_equal(as_tensor.permute(1, 2, 0).numpy(), first)
    pil = pytest.importorskip("PIL.Image")
    torch.manual_seed(1)
    image = jitter(pil.fromarray(array))
    assert image.mode == "RGB" and numpy.array_equal(numpy.asarray(image), first)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"brightness": -1}, "brightness is -1, allowed are 0 and more, or a range within 0 to inf"),
        ({"hue": 0.6}, "hue is 0.6, allowed are 0 to 0.5, or a range within -0.5 to 0.5"),
        ({"contrast": (2, 1)}, r"contrast is \(2, 1\), allowed are 0 and more, or a range within 0 to inf"),
    ],
)
def test_colours_that_cannot_be(arguments: dict, message: str):
    with pytest.raises(ValueError, match=f"FusedColorJitter: {message}"):
        contrib.FusedColorJitter(**arguments)
    with pytest.raises(ValueError, match="FusedColorJitter: the image has 4 colours, allowed are 3"):
        contrib.FusedColorJitter()(torch.zeros(4, 2, 2))
