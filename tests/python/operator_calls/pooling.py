# SPDX-License-Identifier: Apache-2.0
"""Pooling, resampling, blocks of images, cells and losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tests.python.operator_calls import Call, whole

aten = torch.ops.aten


def images(channels: int = 4, height: int = 9, width: int = 11) -> Iterator[torch.Tensor]:
    """Yields images in row-major order, channels last, transposed, as parts of others, without a batch, and empty."""
    x = torch.rand(2, channels, height, width)
    yield x
    yield x.to(memory_format=torch.channels_last)
    yield torch.rand(2, channels, width, height).transpose(2, 3)
    yield torch.rand(2, channels + 1, height, width)[:, 1:]
    yield torch.rand(channels, height, width)
    yield torch.rand(height, width, channels).permute(2, 0, 1)
    yield x[:0].bfloat16()


def volumes(channels: int = 4, size: int = 7) -> Iterator[torch.Tensor]:
    x = torch.rand(2, channels, size, size + 1, size + 2)
    yield x
    yield x.to(memory_format=torch.channels_last_3d)
    yield torch.rand(2, size + 1, channels, size, size + 2).permute(0, 2, 3, 1, 4)
    # Volumes without a batch are not channels last here: eager's maxima keep that order, FakeTensor's do not.
    yield torch.rand(channels, size, size + 1, size + 2)
    yield torch.rand(channels, size, size + 2, size + 1).transpose(2, 3)


def single_pixels() -> Iterator[torch.Tensor]:
    """Yields images of one channel or one pixel, whose strides hardly show their order of dimensions."""
    yield torch.rand(2, 4, 1, 1).to(memory_format=torch.channels_last)
    yield torch.rand(2, 4, 1, 1)
    yield torch.rand(2, 1, 4, 6).to(memory_format=torch.channels_last)
    yield torch.rand(2, 6, 4, 1).transpose(1, 3)
    yield torch.rand(3, 1, 1, 1)
    yield torch.rand(3, 1, 1, 5)[..., :1]
    yield torch.rand(1, 4, 1, 1).expand(2, 4, 4, 4)
    yield torch.rand(2, 1, 4, 4).expand(2, 4, 4, 4)


def windows(rank: int) -> Iterator[dict[str, Any]]:
    yield {"kernel_size": [2]}
    yield {"kernel_size": [3] * rank, "stride": [2], "padding": [1]}
    yield {"kernel_size": [3, 2, 4][:rank], "stride": [2, 1, 3][:rank], "padding": [1, 0, 2][:rank]}
    yield {"kernel_size": [3], "stride": [2], "padding": [1], "ceil_mode": True}
    yield {"kernel_size": [2], "stride": [4], "padding": [1], "ceil_mode": True}
    yield {"kernel_size": [1], "stride": [5], "padding": [0], "ceil_mode": True}


def max_windows(rank: int) -> Iterator[dict[str, Any]]:
    yield from windows(rank)
    yield {"kernel_size": [2], "stride": [], "padding": [0], "dilation": [2], "ceil_mode": True}
    yield {"kernel_size": [3], "stride": [1], "padding": [1], "dilation": [2, 1, 3][:rank]}


def all_arguments(window: dict[str, Any], *, dilated: bool) -> tuple[Any, ...]:
    """Returns the arguments of a window as the operators of gradients take them."""
    dilation = (window.get("dilation", [1]),) if dilated else ()
    sides = (window["kernel_size"], window.get("stride", []), window.get("padding", [0]))
    return (*sides, *dilation, window.get("ceil_mode", False))


def pooling() -> Iterator[Call]:
    small = [*images(), *single_pixels()]
    for rank, inputs in ((2, small), (3, list(volumes()))):
        max_pool = getattr(aten, f"max_pool{rank}d_with_indices")
        max_back = getattr(aten, f"max_pool{rank}d_with_indices_backward")
        average = getattr(aten, f"avg_pool{rank}d")
        average_back = getattr(aten, f"avg_pool{rank}d_backward")
        for x in inputs:
            for window in max_windows(rank):
                yield max_pool.default, (x,), window
            for window in windows(rank):
                yield average.default, (x,), window
        for x in inputs[:6]:
            for window in list(max_windows(rank))[1::2]:
                y, indices = max_pool(x, **window)
                for grad in (y, y.contiguous().transpose(-1, -2).contiguous().transpose(-1, -2)):
                    yield max_back.default, (grad, x, *all_arguments(window, dilated=True), indices), {}
            for window in list(windows(rank))[1:4:2]:
                y = average(x, **window)
                yield average_back.default, (y, x, *all_arguments(window, dilated=False), True, None), {}
        yield average.default, (inputs[0], [2]), {"count_include_pad": False, "divisor_override": 3}
        yield average.default, (inputs[1].to(torch.int64), [2]), {}
        yield max_pool.default, (inputs[1].to(torch.int64), [2]), {}
    for signal in signals():
        for window in windows(1):
            yield whole(aten.avg_pool1d.default), (signal,), window


def signals() -> Iterator[torch.Tensor]:
    yield torch.rand(2, 3, 9)
    yield torch.rand(2, 9, 3).transpose(1, 2)
    yield torch.rand(3, 9)
    yield torch.rand(9, 3).t()
    yield torch.rand(2, 3, 18)[..., ::2]
    yield torch.rand(0, 3, 9)


def adaptive_pooling() -> Iterator[Call]:
    for x in (*images(), *single_pixels()):
        for size in ([3, 2], [1, 1], [1, 5]):
            yield aten._adaptive_avg_pool2d.default, (x, size), {}
            yield aten.adaptive_max_pool2d.default, (x, size), {}
        y, indices = aten.adaptive_max_pool2d(x, [3, 2])
        yield aten._adaptive_avg_pool2d_backward.default, (y, x), {}
        yield aten._adaptive_avg_pool2d_backward.default, (y.contiguous(), x), {}
        yield aten.adaptive_max_pool2d_backward.default, (y, x, indices), {}
    for x in volumes():
        for size in ([3, 2, 4], [1, 1, 1]):
            yield aten._adaptive_avg_pool3d.default, (x, size), {}
            yield aten.adaptive_max_pool3d.default, (x, size), {}
        yield aten._adaptive_avg_pool3d_backward.default, (aten._adaptive_avg_pool3d(x, [3, 2, 4]), x), {}
    for signal in signals():
        yield whole(aten.adaptive_avg_pool1d.default), (signal, [4]), {}
        yield whole(aten.adaptive_avg_pool1d.default), (signal, [1]), {}


def unpooling() -> Iterator[Call]:
    for x in images():
        samples = torch.rand(2, 4, 2, dtype=x.dtype)
        yield aten.fractional_max_pool2d.default, (x, [2, 3], [4, 5], samples), {}
        # Eager keeps channels last here, FakeTensor does not.
        y, indices = (part.contiguous() for part in aten.max_pool2d_with_indices(x, [2, 2]))
        yield aten.max_unpool2d.default, (y, indices, [9, 11]), {}
        yield aten.max_unpool2d.default, (y, indices, [20, 20]), {}
    for x in volumes():
        y, indices = aten.max_pool3d_with_indices(x, [2, 2, 2])
        yield aten.max_unpool3d.default, (y, indices, [7, 8, 9], [2, 2, 2], [0, 0, 0]), {}


def upsampling() -> Iterator[Call]:
    pixels = [x for x in (*images(), *single_pixels()) if x.dim() == 4]
    spaces = [x for x in volumes() if x.dim() == 5]
    for signal in (torch.rand(2, 3, 5), torch.rand(2, 5, 3).transpose(1, 2), torch.rand(0, 3, 5)):
        for size in ([8], [3], [1]):
            yield whole(aten.upsample_nearest1d.default), (signal, size), {}
            yield whole(aten._upsample_nearest_exact1d.default), (signal, size, 1.5), {}
            yield whole(aten.upsample_linear1d.default), (signal, size, True), {}
    for x in pixels:
        for size in ([8, 3], [1, 1], [20, 30]):
            yield whole(aten.upsample_nearest2d.default), (x, size), {}
            yield whole(aten._upsample_nearest_exact2d.default), (x, size, 2.0, 1.5), {}
            yield whole(aten.upsample_bilinear2d.default), (x, size, False), {}
            yield whole(aten.upsample_bicubic2d.default), (x, size, True), {}
            yield aten._upsample_bilinear2d_aa.default, (x, size, False), {}
            yield aten._upsample_bicubic2d_aa.default, (x, size, False), {}
        yield whole(aten.upsample_nearest2d.vec), (x, [8, 3], None), {}
        yield whole(aten.upsample_nearest2d.vec), (x, None, [2.0, 3.0]), {}
        yield whole(aten.upsample_bilinear2d.vec), (x, [8, 3], True, None), {}
        yield whole(aten.upsample_bilinear2d.vec), (x, None, False, [2.0, 1.7]), {}
        for grad in (aten.upsample_nearest2d(x, [8, 3]), aten.upsample_nearest2d(x, [8, 3]).contiguous()):
            sizes = list(x.shape)
            yield aten.upsample_nearest2d_backward.default, (grad, [8, 3], sizes), {}
            yield aten.upsample_bilinear2d_backward.default, (grad, [8, 3], sizes, True), {}
            yield aten.upsample_bicubic2d_backward.default, (grad, [8, 3], sizes, False, 1.0, 2.0), {}
    for x in spaces:
        for size in ([8, 3, 5], [1, 1, 1]):
            yield whole(aten.upsample_nearest3d.default), (x, size), {}
            yield aten.upsample_trilinear3d.default, (x, size, False), {}
    yield whole(aten.upsample_bilinear2d.default), ((pixels[0] * 9).to(torch.uint8), [4, 4], False), {}
    yield whole(aten.upsample_nearest2d.default), ((pixels[1] * 9).to(torch.uint8), [4, 4]), {}


def grids() -> Iterator[Call]:
    x = torch.rand(2, 4, 5, 6)
    grid = torch.rand(2, 7, 8, 2)
    for image in (x, x.to(memory_format=torch.channels_last), x.transpose(2, 3)):
        for places in (grid, grid.to(memory_format=torch.channels_last), grid.transpose(1, 2)):
            yield aten.grid_sampler_2d.default, (image, places, 0, 0, False), {}
            yield aten.grid_sampler_2d.default, (image, places, 2, 1, True), {}
            grad = aten.grid_sampler_2d(image, places, 0, 0, False)
            for mask in ([True, True], [False, True], [True, False]):
                yield aten.grid_sampler_2d_backward.default, (grad, image, places, 0, 0, False, mask), {}
    volume = torch.rand(2, 3, 4, 5, 6)
    for space in (volume, volume.to(memory_format=torch.channels_last_3d)):
        yield aten.grid_sampler_3d.default, (space, torch.rand(2, 4, 3, 5, 3), 0, 0, False), {}
        yield aten.grid_sampler_3d.default, (space, torch.rand(2, 3, 4, 5, 3).transpose(1, 2), 1, 2, True), {}
    for theta in (torch.rand(2, 2, 3), torch.rand(2, 3, 2).transpose(1, 2)):
        yield aten.affine_grid_generator.default, (theta, [2, 5, 6, 7], True), {}
        yield aten.affine_grid_generator.default, (theta, [2, 5, 1, 7], False), {}
    yield aten.affine_grid_generator.default, (torch.rand(2, 3, 4).double(), [2, 5, 6, 7, 8], False), {}


def blocks() -> Iterator[Call]:
    for x in images():
        for kernel, dilation, padding, stride in (
            ([2, 3], [1, 1], [0, 0], [1, 1]),
            ([3, 3], [1, 2], [1, 1], [2, 3]),
            ([1, 1], [1, 1], [0, 2], [1, 1]),
        ):
            columns = aten.im2col(x, kernel, dilation, padding, stride)
            yield aten.im2col.default, (x, kernel, dilation, padding, stride), {}
            for given in (columns, columns.transpose(-1, -2).contiguous().transpose(-1, -2)):
                yield aten.col2im.default, (given, [9, 11], kernel, dilation, padding, stride), {}
    shapes = [torch.rand(2, 8, 4, 6), torch.rand(8, 4, 6), torch.rand(3, 2, 8, 4, 6), torch.rand(0, 8, 4, 6)]
    shapes += [shapes[0].to(memory_format=torch.channels_last), torch.rand(2, 4, 6, 8).permute(0, 3, 2, 1)]
    shapes += [torch.rand(3, 8, 2, 4, 6).to(memory_format=torch.channels_last_3d).transpose(1, 2)]
    shapes += [torch.rand(2, 8, 4, 6).to(memory_format=torch.channels_last).to(torch.int64)]
    for x in shapes:
        yield aten.pixel_shuffle.default, (x, 2), {}
        # Eager's pixel_unshuffle leaves an image without elements as it is.
        if x.numel() > 0:
            yield aten.pixel_unshuffle.default, (x, 2), {}
        # Eager's channel_shuffle keeps channels last, FakeTensor's does not.
        if not x.is_contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x.dim() > 2:
            yield aten.channel_shuffle.default, (x, 2), {}
    yield aten.channel_shuffle.default, (torch.rand(2, 4, 6), 2), {}


def cells_and_losses() -> Iterator[Call]:
    gates, cell, bias = torch.rand(3, 20), torch.rand(3, 5), torch.rand(20)
    # FakeTensor takes no cell without biases.
    yield aten._thnn_fused_lstm_cell.default, (gates, gates, torch.rand(5, 3).t(), bias, bias), {}
    yield aten._thnn_fused_lstm_cell.default, (torch.rand(20, 3).t(), gates, cell, bias, bias), {}
    for log_probs in (torch.rand(9, 2, 6), torch.rand(2, 9, 6).transpose(0, 1), torch.rand(9, 2, 6).double()):
        yield aten._ctc_loss.default, (log_probs, torch.randint(1, 6, (2, 4)), [9, 7], [4, 2]), {}
        yield aten._ctc_loss.default, (log_probs, torch.randint(1, 6, (2, 8)), [9, 7], [3, 2]), {}
        yield aten._ctc_loss.default, (log_probs, torch.randint(1, 6, (5,)), [9, 7], [3, 2], 0, True), {}


def calls() -> Iterator[Call]:
    for part in (pooling, adaptive_pooling, unpooling, upsampling, grids, blocks, cells_and_losses):
        yield from part()
