# SPDX-License-Identifier: Apache-2.0
"""torch_npu.contrib against definitions written down here."""

from __future__ import annotations

import math

import pytest
import torch
import torch_npu
from torch_npu import contrib
from torch_npu.contrib.function import npu_ciou, npu_diou, npu_giou, npu_iou


def _boxes(count: int, seed: int) -> torch.Tensor:
    corner, size = torch.rand(2, count, 2, generator=torch.Generator().manual_seed(seed)) * 10 + 0.5
    return torch.cat([corner, corner + size], 1)


def _centred(boxes: torch.Tensor) -> torch.Tensor:
    return torch.cat([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1)


def _pair(a: list[float], b: list[float]) -> dict[str, float]:
    """Returns overlap and penalties of two boxes (x1, y1, x2, y2)."""
    width = max(0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0, min(a[3], b[3]) - max(a[1], b[1]))
    areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
    common = width * height
    union = sum(areas) - common
    hull = [max(a[2], b[2]) - min(a[0], b[0]), max(a[3], b[3]) - min(a[1], b[1])]
    centres = [[(c[0] + c[2]) / 2, (c[1] + c[3]) / 2] for c in (a, b)]
    iou = common / union
    distance = math.dist(*centres) ** 2 / (hull[0] ** 2 + hull[1] ** 2)
    angles = [math.atan((c[2] - c[0]) / (c[3] - c[1])) for c in (a, b)]
    shape = 4 / math.pi**2 * (angles[0] - angles[1]) ** 2
    return {
        "iou": iou,
        "iof": common / areas[0],
        "giou": iou - (hull[0] * hull[1] - union) / (hull[0] * hull[1]),
        "diou": iou - distance,
        "ciou": iou - distance - shape**2 / (1 - iou + shape),
    }


def _table(one: torch.Tensor, other: torch.Tensor, name: str) -> torch.Tensor:
    return torch.tensor([[_pair(a, b)[name] for b in other.tolist()] for a in one.tolist()])


def test_overlaps_of_boxes():
    one, other = _boxes(5, 1), _boxes(5, 2)
    for mode, name in (("iou", "iou"), ("ptiou", "iou"), ("iof", "iof")):
        torch.testing.assert_close(npu_iou(one.npu(), other.npu(), mode).cpu(), _table(one, other, name))
    torch.testing.assert_close(npu_iou(one / 100, other / 100, is_normalized=True), _table(one, other, "iou"))
    a, b = _centred(one).npu(), _centred(other).npu()
    expected = _table(one, other, "giou").diagonal()[:, None]
    torch.testing.assert_close(npu_giou(a, b).cpu(), expected)
    torch.testing.assert_close(npu_giou(a.t(), b.t(), is_permuted=False).cpu(), expected)
    for function, name in ((npu_diou, "diou"), (npu_ciou, "ciou")):
        table = _table(one, other, name)
        torch.testing.assert_close(function(a, b).cpu(), table.diagonal()[:, None])
        torch.testing.assert_close(function(one, other, trans=False, is_cross=True), table)
    with pytest.raises(ValueError, match="npu_iou: mode is 'x', allowed are iou, ptiou and iof"):
        npu_iou(one, other, "x")


def test_boxes_as_differences():
    anchors, truth = _boxes(6, 3).npu(), _boxes(6, 4).npu()
    means, stds = [0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]
    deltas = contrib.npu_bbox_coder_encode_xyxy2xywh(anchors, truth, means, stds)
    a, t = _centred(anchors), _centred(truth)
    a_size, t_size = a[:, 2:] + 1, t[:, 2:] + 1  # in pixels, the last one included
    expected = torch.cat([(t[:, :2] - a[:, :2]) / a_size, (t_size / a_size).log()], 1)
    torch.testing.assert_close(deltas.cpu(), (expected.cpu() - torch.tensor(means)) / torch.tensor(stds))
    shares = contrib.npu_bbox_coder_encode_xyxy2xywh(anchors / 100, truth / 100, is_normalized=True)
    expected = torch.cat([(t[:, :2] - a[:, :2]) / a[:, 2:], (t[:, 2:] / a[:, 2:]).log()], 1)
    torch.testing.assert_close(shares, expected, rtol=0.05, atol=0.05)
    torch.testing.assert_close(contrib.npu_bbox_coder_decode_xywh2xyxy(anchors, deltas, means, stds), truth)
    clipped = contrib.npu_bbox_coder_decode_xywh2xyxy(anchors, deltas, means, stds, max_shape=(5, 7))
    torch.testing.assert_close(clipped, torch.minimum(truth, truth.new_tensor([6, 4, 6, 4])))
    expected = torch.cat([((t[:, :2] - a[:, :2]) / 8 + 0.5).clamp(1e-6, 1 - 1e-6), expected[:, 2:]], 1)
    for stride in (torch.full((6,), 8.0, device="npu"), 8):
        torch.testing.assert_close(contrib.npu_bbox_coder_encode_yolo(anchors, truth, stride), expected)


def test_anchors_that_answer_for_boxes():
    boxes = torch.tensor([[0.0, 0, 10, 10], [20, 10, 30, 20]], device="npu")
    flags = contrib.npu_single_level_responsible_flags((2, 4), boxes, (8, 8), 3)
    expected = torch.zeros(2, 4, 3, dtype=torch.uint8)
    expected[0, 0] = expected[1, 3] = 1
    assert torch.equal(flags.cpu(), expected.flatten())


def test_small_functions():
    x, y = torch.randn(2, 3, 4, device="npu"), torch.randn(2, 5, 4, device="npu")
    torch.testing.assert_close(contrib.matmul_transpose(x, y), x @ y.transpose(-1, -2))
    assert torch.equal(contrib.roll(x, (1, 2), (0, 2)), torch.roll(x, (1, 2), (0, 2)))
    condition = torch.tensor([[True, False, True], [False, False, False]], device="npu")
    z = x.clone()
    assert contrib.npu_fast_condition_index_put(z, condition, 7.0) is z
    x[condition] = 7.0
    assert torch.equal(x, z)
    scores, mask = torch.randn(2, 2, 3, 3, device="npu"), torch.zeros(2, 1, 1, 3, device="npu")
    mask[:, :, :, 2] = -10000
    out = contrib.fuse_add_softmax_dropout(False, torch.nn.Dropout(0.5), mask, scores, 16)
    torch.testing.assert_close(out, (scores / 4 + mask).softmax(-1))
    torch.manual_seed(3)
    dropped = contrib.dropout_with_byte_mask(torch.ones(100, device="npu"), 0.25)
    assert set(dropped.unique().tolist()) == {0, torch.tensor(1 / 0.75).item()}
    assert contrib.dropout_with_byte_mask(x, training=False) is x


def test_activations_and_recurrent_layers():
    x = torch.randn(4, 3, device="npu")
    torch.testing.assert_close(contrib.SiLU()(x), x * x.sigmoid())
    torch.testing.assert_close(contrib.Mish()(x), x * torch.tanh(torch.log1p(x.exp())))
    both = contrib.BiLSTM(3, 5).npu()
    time = torch.randn(7, 2, 3, device="npu")
    out = both(time)
    assert out.shape == (7, 2, 10)
    torch.testing.assert_close(out, both.lstm(time)[0])


def test_shuffled_channels():
    one, other = torch.zeros(2, 3, 4, 4, device="npu"), torch.ones(2, 3, 4, 4, device="npu")
    whole = contrib.ChannelShuffle(6, split_shuffle=False)(one, other)
    assert whole[0, :, 0, 0].tolist() == [0, 1, 0, 1, 0, 1]
    halves = contrib.ChannelShuffle(6)(one, other)
    assert torch.equal(torch.cat(halves, 1), whole) and halves[0].shape == (2, 3, 4, 4)
    with pytest.raises(ValueError, match="an input has 3 channels, allowed are 4"):
        contrib.ChannelShuffle(8)(one, other)
    with pytest.raises(ValueError, match="groups is 3, allowed is 2"):
        contrib.ChannelShuffle(6, groups=3)


def test_shuffled_channels_by_their_numbers():
    from torch_npu.contrib.module import channel_shuffle

    one, other = (torch.randn(2, 2, 3, device="npu", requires_grad=True) for _ in range(2))
    forward = torch.tensor([0, 2, 1, 3], device="npu")
    first, second = torch.tensor([0, 2], device="npu"), torch.tensor([1, 3], device="npu")
    expected = torch.cat([one, other], 1)[:, forward]
    whole = channel_shuffle.IndexSelectFullImplementation.apply(one, other, forward, first, second)
    halves = channel_shuffle.IndexSelectHalfImplementation.apply(one, other, forward[:2], forward[2:], first, second)
    assert torch.equal(whole, expected) and torch.equal(torch.cat(halves, 1), expected)
    weights = torch.randn(2, 4, 3, device="npu")
    gradients = torch.autograd.grad((expected * weights).sum(), (one, other))
    for out in (whole, torch.cat(halves, 1)):
        for found, right in zip(torch.autograd.grad((out * weights).sum(), (one, other)), gradients, strict=True):
            assert torch.equal(found, right)


@pytest.mark.parametrize("smooth", [0.0, 0.1])
def test_smooth_cross_entropy(smooth: float):
    logits, target = torch.randn(6, 5, device="npu"), torch.tensor([0, 1, 2, 3, 4, 0], device="npu")
    soft = torch.full((6, 5), smooth / 4, device="npu").scatter(1, target[:, None], 1 - smooth)
    expected = torch.nn.functional.cross_entropy(logits, soft)
    torch.testing.assert_close(contrib.LabelSmoothingCrossEntropy(5, smooth)(logits, target.int()), expected)


def test_dropped_paths():
    torch.manual_seed(0)
    x = torch.ones(64, 3, 2, device="npu")
    layer = contrib.NpuDropPath(0.25)
    rows = layer(x).flatten(1)
    assert torch.equal(rows.min(1).values, rows.max(1).values)
    assert set(rows[:, 0].tolist()) == {0, torch.tensor(1 / 0.75).item()}
    assert layer.eval()(x) is x and contrib.NpuDropPath()(x) is x
    for kind in (contrib.NpuCachedDropout, contrib.NpuFairseqDropout):
        assert kind(0.5).eval()(x) is x and 0 in kind(0.5)(x)
    assert 0 in contrib.DropoutWithByteMask()(x) and contrib.DropoutWithByteMask().eval()(x) is x
    assert contrib.NpuDropPath.enable_droppath_ensemble(layer) is None
    assert contrib.NpuCachedDropout.enable_dropout_ensemble(layer) is None
    with pytest.raises(ValueError, match="between 0 and 1, but got 2"):
        contrib.DropoutWithByteMask(2)


def test_focus_is_a_convolution_of_interleaved_pixels():
    layer = contrib.Focus(3, 8, 3).npu().eval()
    x = torch.randn(2, 3, 8, 6, device="npu")
    parts = torch.cat([x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2]], 1)
    convolved = torch.nn.functional.conv2d(parts, layer.conv.conv.weight, padding=1)
    torch.testing.assert_close(layer(x), torch.nn.functional.silu(layer.conv.bn(convolved)))
    torch.testing.assert_close(layer.conv.fuseforward(parts), torch.nn.functional.silu(convolved))


def test_batches_are_fetched_ahead():
    pairs = [(torch.full((2,), float(index)), torch.tensor([index])) for index in range(3)]
    fetcher, seen = contrib.Prefetcher(pairs), []
    x, y = fetcher.next()
    while x is not None:
        assert x.device.type == y.device.type == "npu"
        seen.append((x[0].item(), y.item()))
        x, y = fetcher.next()
    assert seen == [(0, 0), (1, 1), (2, 2)] and fetcher.next() == (None, None)


def _recorded(monkeypatch: pytest.MonkeyPatch, name: str) -> list:
    calls = []

    def operator(*args, **kwargs):
        calls.append((args, kwargs))
        return args[0]

    monkeypatch.setattr(torch.ops.npu, name, operator)
    return calls


@pytest.mark.parametrize("kind", [contrib.LinearQuant, contrib.LinearA8W8Quant])
def test_linear_layers_of_int8(kind: type, monkeypatch: pytest.MonkeyPatch):
    calls = _recorded(monkeypatch, "npu_quant_matmul")
    layer = kind(8, 4, offset=True, pertoken_scale=True, device="npu", output_dtype=torch.float16)
    x = torch.ones(2, 8, dtype=torch.int8, device="npu")
    layer(x)
    ((given, weight, scale), named) = calls[0]
    assert given is x and weight.shape == (8, 4) and weight.data_ptr() == layer.weight.data_ptr()
    assert scale is layer.scale and named["bias"].dtype == torch.int32 and named["offset"] is layer.offset
    assert named["pertoken_scale"] is layer.pertoken_scale and named["output_dtype"] == torch.float16
    plain = kind(8, 4, bias=False)
    assert sorted(plain.state_dict()) == ["scale", "weight"] and plain.weight.dtype == torch.int8


def test_linear_layers_with_quantised_weights(monkeypatch: pytest.MonkeyPatch):
    calls = _recorded(monkeypatch, "npu_weight_quant_batchmatmul")
    layer = contrib.LinearWeightQuant(
        64, 4, dtype=torch.float16, antiquant_offset=True, quant_scale=True, quant_offset=True, antiquant_group_size=32
    )
    layer(torch.ones(2, 64, dtype=torch.float16))
    args = calls[0][0]
    assert args[1].shape == (64, 4) and args[2].shape == args[3].shape == (2, 4)
    assert args[4] is layer.quant_scale and args[5] is layer.quant_offset and args[6] is layer.bias
    assert args[7:] == (32, 0) and args[2].dtype == torch.float16
    whole = contrib.LinearWeightQuant(64, 4, bias=False, dtype=torch.bfloat16)
    assert whole.antiquant_scale.shape == (4,) and whole.antiquant_offset is whole.bias is None


def test_convolutions_of_int8(monkeypatch: pytest.MonkeyPatch):
    calls = _recorded(monkeypatch, "npu_quant_conv2d")
    layer = contrib.QuantConv2d(4, 6, 3, torch.float16, stride=(1, 2), padding=1, groups=2, offset=True, device="npu")
    layer(torch.ones(1, 4, 5, 5, dtype=torch.int8, device="npu"))
    args = calls[0][0]
    assert args[1].shape == (6, 2, 3, 3) and args[2].dtype == torch.int64
    assert args[3:10] == ((1, 2), (1, 1), (1, 1), 2, 0, "rint", torch.float16)
    assert args[10] is layer.bias and args[11] is layer.offset and args[12:] == (None, None)
    with pytest.raises(ValueError, match="QuantConv2d: 5 and 6 channels in 2 groups"):
        contrib.QuantConv2d(5, 6, 3, torch.float16, groups=2)


def _pixel(image: torch.Tensor, y: float, x: float) -> torch.Tensor:
    """Returns Mask R-CNN's bilinear sample of an image [c, h, w]."""
    height, width = image.shape[1:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return torch.zeros(image.shape[0], dtype=image.dtype)
    y, x = min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1)
    total = torch.zeros(image.shape[0], dtype=image.dtype)
    for row in (int(y), int(y) + 1):
        for column in (int(x), int(x) + 1):
            weight = max(0, 1 - abs(y - row)) * max(0, 1 - abs(x - column))
            if weight:
                total += weight * image[:, row, column]
    return total


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [0, 2])
def test_features_of_regions(aligned: bool, ratio: int):
    images = torch.randn(2, 3, 6, 8)
    rois = torch.tensor([[0, 1.0, 2.0, 13.0, 9.0], [1, -3.0, 4.0, 20.0, 16.0], [1, 5.0, 5.0, 5.5, 5.25]])
    found = contrib.ROIAlign((2, 3), 0.5, ratio, aligned)(images.npu(), rois.npu())
    assert found.shape == (3, 3, 2, 3)
    for index, (number, *box) in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (one * 0.5 - 0.5 * aligned for one in box)
        high, wide = ((y2 - y1), (x2 - x1)) if aligned else (max(y2 - y1, 1), max(x2 - x1, 1))
        down, across = (ratio or max(math.ceil(high / 2), 1)), (ratio or max(math.ceil(wide / 3), 1))
        for row in range(2):
            for column in range(3):
                samples = [
                    _pixel(
                        images[int(number)].double(),
                        y1 + (row + (i + 0.5) / down) * high / 2,
                        x1 + (column + (j + 0.5) / across) * wide / 3,
                    )
                    for i in range(down)
                    for j in range(across)
                ]
                expected = torch.stack(samples).mean(0)
                torch.testing.assert_close(found[index, :, row, column].cpu().double(), expected, rtol=1e-4, atol=1e-4)
    assert contrib.ROIAlign(2, 1.0, ratio)(images, rois[:0]).shape == (0, 3, 2, 2)
    with pytest.raises(ValueError, match=r"rois is \(3, 4\), expected \(n, 5\)"):
        contrib.ROIAlign(2, 1.0, 0)(images, rois[:, 1:])


def test_contrib_is_a_part_of_torch_npu():
    assert torch_npu.contrib is contrib
