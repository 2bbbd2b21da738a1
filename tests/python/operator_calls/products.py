# SPDX-License-Identifier: Apache-2.0
"""Products, convolutions, attention and quantised weights."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed

import npugraph.gguf.operators
import npugraph.operators  # noqa: F401
from tests.python.operator_calls import Call, whole

aten = torch.ops.aten
bf16 = torch.bfloat16
i8 = torch.int8


def rand(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(sizes, dtype=dtype)


def additions() -> Iterator[Call]:
    matrix, vector = rand(5, 4), rand(4)
    yield aten.mv.default, (matrix, vector), {}
    yield aten.mv.default, (rand(4, 5).t(), vector), {}
    yield aten.mv.default, (rand(0, 4, dtype=torch.int64), rand(4, dtype=torch.int64)), {}
    yield aten.dot.default, (vector, vector), {}
    yield aten.vdot.default, (vector.to(torch.complex64), vector.to(torch.complex64)), {}
    for self in (rand(5), rand(1), torch.tensor(2.0), rand(10)[::2]):
        yield aten.addmv.default, (self, matrix, vector), {"beta": 2, "alpha": 3}
        yield aten.addmv.default, (self, matrix, vector), {"beta": 0}
    yield aten.addmv.default, (rand(0), rand(0, 4), vector), {}
    yield aten.addmv.default, (rand(5, dtype=bf16), matrix.to(bf16), vector.to(bf16)), {}
    batch1, batch2 = rand(2, 5, 3), rand(2, 3, 4)
    for self in (rand(5, 4), rand(4, 5).t(), rand(4), rand(5, 1), torch.tensor(2.0)):
        yield aten.addbmm.default, (self, batch1, batch2), {"beta": 2}
        yield aten.addbmm.default, (self, batch1.mT.contiguous().mT, batch2), {"alpha": 2}
        yield aten.addr.default, (self, rand(5), rand(4)), {}
        if self.is_contiguous():  # if beta is 0, FakeTensor ignores self, and eager keeps its order of dimensions
            yield aten.addr.default, (self, rand(5), rand(4)), {"beta": 0}
        yield aten._addmm_activation.default, (self, rand(5, 3), rand(3, 4)), {}
        yield aten._addmm_activation.default, (self, rand(3, 5).t(), rand(3, 4)), {"use_gelu": True}
    yield aten.addr.default, (rand(5, 4, dtype=torch.int64), rand(5), rand(4)), {}
    yield aten.addr.default, (rand(5, 4, dtype=bf16), rand(5, dtype=bf16), rand(4)), {"alpha": 2}
    yield aten.addr.default, (rand(1, 4), rand(5)[:0], rand(8)[::2]), {}
    yield aten.addbmm.default, (rand(5, 4, dtype=torch.int64), batch1.long(), batch2.long()), {}
    yield aten.addbmm.default, (rand(5, 4), rand(0, 5, 3), rand(0, 3, 4)), {}
    for self in (rand(5, 4), rand(4, 5).t()):
        yield aten.mm.default, (rand(5, 3), rand(4, 3).t()), {}
        yield aten.addmm.default, (self, rand(5, 3), rand(3, 4)), {"alpha": 2}
        yield aten.addmm_.default, (self.clone(), rand(5, 3), rand(3, 4)), {}
        yield aten.addmv_.default, (self.clone()[:, 0], self, vector), {}
        yield aten.addbmm_.default, (self.clone(), batch1, batch2), {}
        yield aten.addr_.default, (self.clone(), rand(5), rand(4)), {}
        whole_batch = torch.stack([self, self])
        yield aten.bmm.default, (batch1, batch2.mT.contiguous().mT), {}
        yield aten.baddbmm.default, (whole_batch, batch1, batch2), {"beta": 2}
        yield aten.baddbmm_.default, (whole_batch, batch1, batch2), {}


def factors() -> Iterator[Call]:
    linear, matmul = whole(aten.linear.default), whole(aten.matmul.default)
    for x in (rand(4), rand(3, 4), rand(2, 3, 4), rand(3, 2, 4).transpose(0, 1), rand(2, 0, 4), rand(2, 1, 3, 4)):
        yield linear, (x, rand(5, 4)), {}
        yield linear, (x, rand(5, 4), rand(5)), {}
        yield linear, (x, rand(4)), {}
        yield linear, (x.to(bf16), rand(4, 5).t().to(bf16), rand(5).to(bf16)), {}
        yield matmul, (x, rand(4)), {}
        yield matmul, (x, rand(4, 5)), {}
        yield matmul, (x, rand(5, 4).t()), {}
        yield matmul, (x, rand(1, 4, 5)), {}
        yield matmul, (x, rand(3, 1, 4, 5)[:1]), {}
    for left, right in (
        ((4, 4), (2, 4, 4)), ((1, 3, 4), (2, 4, 5)), ((2, 3, 4), (1, 4, 5)), ((2, 1, 3, 4), (5, 4, 6)),
        ((4,), (2, 4, 5)), ((2, 3, 0), (2, 0, 5)), ((0, 3, 4), (4,)), ((5, 0, 3, 4), (4, 4)),
        ((5, 2, 3, 4), (5, 2, 4, 3)),
    ):  # fmt: skip
        yield matmul, (rand(*left), rand(*right)), {}
        if len(left) > 1 and len(right) > 1:
            yield matmul, (rand(*left).mT.contiguous().mT, rand(*right).mT.contiguous().mT), {}
    yield matmul, (rand(2, 3, 4, dtype=torch.int64), rand(4, 3, dtype=torch.int64)), {}
    yield aten._int_mm.default, (rand(32, 16, dtype=i8), rand(16, 8, dtype=i8)), {}
    yield aten._int_mm.default, (rand(32, 16, dtype=torch.uint8), rand(8, 16, dtype=i8).t()), {}
    ends = torch.tensor([2, 6], dtype=torch.int32)
    yield aten._grouped_mm.default, (rand(6, 8, dtype=bf16), rand(2, 8, 16, dtype=bf16), ends), {}
    yield aten._grouped_mm.default, (rand(6, 8, dtype=bf16), rand(2, 16, 8, dtype=bf16).mT, ends), {}
    for dtype in (torch.float32, bf16):
        yield (
            aten._weight_int8pack_mm.default,
            (rand(3, 16, dtype=dtype), rand(8, 16, dtype=i8), rand(8, dtype=dtype)),
            {},
        )
        packed = rand(16, 32, dtype=torch.uint8)
        scales = rand(2, 16, 2, dtype=dtype)
        yield aten._weight_int4pack_mm_for_cpu.default, (rand(3, 64, dtype=dtype), packed, 32, scales), {}
    f8 = torch.float8_e4m3fn
    a, b, scale = rand(16, 32).to(f8), rand(48, 32).to(f8).t(), torch.tensor(1.0)
    yield aten._scaled_mm.default, (a, b, scale, scale), {"out_dtype": bf16}
    yield aten._scaled_mm.default, (a, b, scale, scale, rand(48)), {"out_dtype": torch.float32}
    yield aten._scaled_mm.default, (a, b, scale, scale), {}
    i1, i2, i3 = rand(2, 3), rand(2, 4), rand(5, 3, 4)
    yield aten._trilinear.default, (i1, i3, i2, [1, 3], [0], [1, 2], [2, 3]), {}
    yield aten._trilinear.default, (i1, i3, i2, [1, 3], [0], [1, 2], [2, 3], 2), {}
    yield aten._trilinear.default, (i1, i3, i2, [1, 3], [0], [1, 2], [2]), {}
    yield aten._trilinear.default, (rand(4, 3), rand(4, 3), rand(4, 3), [], [], [], []), {}


def rnn_layers() -> Iterator[Call]:
    weights, state = (rand(20, 3), rand(20, 5), rand(20), rand(20)), rand(1, 2, 5)
    for x in (rand(7, 2, 3), rand(2, 7, 3).transpose(0, 1)):
        for reverse, batch_first in itertools.product((False, True), repeat=2):
            args = (x, *weights, state, state, reverse, [], 2, 5, 1, True, False, batch_first, False)
            yield aten.mkldnn_rnn_layer.default, args, {}


def convolution(x: torch.Tensor, weight: torch.Tensor, bias: Any = None, **options: Any) -> Iterator[Call]:
    """Yields the convolution, and its backward pass for some masks."""
    n = x.dim() - 2
    given = {"stride": [1] * n, "padding": [0] * n, "dilation": [1] * n, "transposed": False, "output_padding": [0] * n}
    settings = tuple({**given, "groups": 1, **options}.values())
    yield aten.convolution.default, (x, weight, bias, *settings), {}
    yield aten._convolution.default, (x, weight, bias, *settings, False, False, True, True), {}
    transposed = settings[3]
    with torch.no_grad():
        y = aten.convolution.default(x, weight, bias, *settings)
    channels = weight.shape[1] * settings[5] if transposed else weight.shape[0]
    for mask in ([True, True, True], [False, True, False], [True, False, True]):
        yield aten.convolution_backward.default, (y, x, weight, [channels], *settings, mask), {}


def convolutions() -> Iterator[Call]:
    last, last_3d = torch.channels_last, torch.channels_last_3d
    image, kernel = rand(2, 4, 9, 8), rand(6, 4, 3, 2)
    yield from convolution(image, kernel)
    yield from convolution(image, kernel, rand(6), stride=[2, 3], padding=[1, 0], dilation=[1, 2])
    yield from convolution(image, kernel, rand(6), stride=[2], padding=[1], dilation=[1], output_padding=[0])
    yield from convolution(image.to(memory_format=last), kernel, rand(6))
    yield from convolution(image, kernel.to(memory_format=last), padding=[2, 2])
    yield from convolution(image.double().to(memory_format=last), kernel.double(), stride=[2, 2])
    yield from convolution(image.to(bf16).to(memory_format=last), kernel.to(bf16), dilation=[2, 2])
    yield from convolution(image.long(), kernel.long())
    yield from convolution(image, rand(6, 2, 3, 3), groups=2, padding=[1, 1])
    yield from convolution(image.to(memory_format=last), rand(4, 1, 3, 3), groups=4)
    yield from convolution(image.to(memory_format=last).double(), rand(4, 1, 3, 3).double(), groups=4)
    yield from convolution(image.transpose(2, 3), kernel)
    yield from convolution(image[:, :, ::2], rand(6, 4, 1, 1))
    yield from convolution(image.to(memory_format=last), rand(6, 4, 1, 1), rand(6))
    yield from convolution(rand(2, 1, 5, 5), rand(3, 1, 2, 2))
    yield from convolution(rand(2, 1, 5, 5).to(memory_format=last), rand(3, 1, 1, 1))
    yield from convolution(rand(1, 3, 1, 1), rand(6, 3, 1, 1))
    yield from convolution(rand(0, 4, 9, 8), kernel)
    yield from convolution(rand(2, 4, 8, 4).permute(0, 3, 1, 2), kernel)
    upward = rand(4, 6, 3, 2)
    for x in (image, image.to(memory_format=last)):
        yield from convolution(x, upward, transposed=True)
        yield from convolution(x, upward, rand(6), stride=[2, 3], transposed=True, output_padding=[1, 2])
        yield from convolution(x, upward, stride=[2, 3], padding=[1, 0], dilation=[2, 1], transposed=True)
        yield from convolution(x, upward, rand(12), groups=2, transposed=True)
        yield from convolution(x.double(), upward.double(), stride=[2, 2], transposed=True)
        # Output padding that is not below the stride keeps the convolution from oneDNN.
        yield from convolution(x, upward, dilation=[2, 2], transposed=True, output_padding=[1, 1])
    signal, filters = rand(2, 4, 9), rand(6, 4, 3)
    yield from convolution(signal, filters)
    yield from convolution(signal, filters, rand(6), stride=[2], padding=[1], dilation=[2])
    yield from convolution(rand(2, 9, 4).mT, filters)
    yield from convolution(signal, rand(6, 3, 4).mT)
    yield from convolution(rand(2, 9, 4).mT, rand(6, 3, 4).mT, rand(6))
    yield from convolution(signal, rand(6, 2, 3), groups=2)
    yield from convolution(signal, rand(6, 4, 1))
    yield from convolution(signal, rand(4, 6, 3), transposed=True, stride=[2], output_padding=[1])
    yield from convolution(rand(2, 4, 1), rand(6, 4, 1))
    yield from convolution(rand(2, 1, 4).mT, rand(6, 4, 1))
    yield from convolution(signal.to(bf16), filters.to(bf16))
    volume, block = rand(2, 4, 5, 6, 7), rand(6, 4, 3, 2, 2)
    yield from convolution(volume, block)
    yield from convolution(volume, block, rand(6), stride=[2, 1, 3], padding=[1, 1, 0], dilation=[1, 2, 1])
    yield from convolution(volume.to(memory_format=last_3d), block, rand(6))
    yield from convolution(volume, block.to(memory_format=last_3d))
    yield from convolution(volume.double().to(memory_format=last_3d), block.double())
    yield from convolution(volume, rand(4, 3, 3, 2, 2), groups=2, transposed=True, stride=[2, 2, 2])
    yield from convolution(volume.to(memory_format=last_3d), rand(4, 6, 3, 2, 2), transposed=True)
    yield from convolution(volume.to(memory_format=last_3d), rand(6, 4, 1, 1, 1))


def heads(*sizes: int, **options: Any) -> torch.Tensor:
    """Returns a tensor [batch, heads, rows, size] as a projection of all heads together makes it: rows come before
    heads in memory."""
    batch, number, rows, size = sizes
    return rand(batch, rows, number, size, **options).transpose(1, 2)


def attention() -> Iterator[Call]:
    flash = aten._scaled_dot_product_flash_attention_for_cpu.default
    flash_backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    sdpa = whole(aten.scaled_dot_product_attention.default)
    written_out = whole(aten._scaled_dot_product_attention_math.default)
    for query in (rand(2, 4, 5, 8), heads(2, 4, 5, 8), rand(2, 4, 5, 8, dtype=bf16), heads(1, 1, 5, 8)):
        batch, number = query.shape[:2]
        key = rand(batch, number, 7, 8, dtype=query.dtype)
        value = heads(batch, number, 7, 8, dtype=query.dtype)
        mask = rand(5, 7, dtype=query.dtype)
        for mask_given in ({}, {"attn_mask": mask}, {"scale": 0.5}):
            yield flash, (query, key, value), mask_given
            out, logsumexp = flash(query, key, value, **mask_given)
            yield flash_backward, (out, query, key, value, out, logsumexp, 0.0, False), mask_given
            yield sdpa, (query, key, value), mask_given
            yield written_out, (query, key, value), mask_given
        yield flash, (query, query, query, 0.0, True), {}
        yield sdpa, (query, key, rand(batch, number, 7, 3, dtype=query.dtype)), {}
        yield sdpa, (query, key, value, mask > 0), {}
        yield sdpa, (query, query, query), {"is_causal": True}
        yield written_out, (query, key, rand(batch, number, 7, 3, dtype=query.dtype)), {}
        yield torch.ops.npugraph.attention.default, (query, key, value), {}
        yield torch.ops.npugraph.attention.default, (query, key, value, mask > 0), {"after": 0, "scale": 1.0}
        yield torch.ops.npugraph.attention.default, (query, key, rand(batch, number, 7, 3)), {"at_end": True}
    query, pair = rand(2, 4, 5, 8), rand(2, 2, 7, 8)
    yield flash, (query, pair, pair), {}
    yield sdpa, (query, pair, pair), {"enable_gqa": True}
    yield written_out, (query, pair, pair), {"enable_gqa": True}
    for query in (rand(5, 8), rand(4, 5, 8), rand(5, 4, 8).transpose(0, 1), rand(2, 3, 4, 5, 8)):
        key = rand(*query.shape[:-2], 7, 8)
        for function in (sdpa, written_out):
            yield function, (query, key, key), {}
            yield function, (query, key, key), {"scale": 2.0}
    yield written_out, (rand(2, 1, 5, 8), rand(1, 4, 7, 8), rand(4, 7, 8)), {}
    yield sdpa, (rand(2, 1, 5, 8), rand(1, 4, 7, 8), rand(4, 7, 8)), {}
    yield sdpa, (rand(2, 4, 0, 8), rand(2, 4, 7, 8), rand(2, 4, 7, 8)), {}
    yield written_out, (rand(2, 4, 5, 8), rand(2, 4, 0, 8), rand(2, 4, 0, 8)), {}


def quantised() -> Iterator[Call]:
    gguf, decomposed = torch.ops.npugraph, torch.ops.quantized_decomposed
    blocks = torch.zeros(6, 2 * 34, dtype=torch.uint8)  # rows of 64 elements
    for indices in (torch.tensor(3), torch.zeros(2, 3, dtype=torch.int64), torch.zeros(0, 2, dtype=torch.int32)):
        yield gguf.gguf_embedding.default, (blocks, indices, "q8_0", torch.float32), {}
        yield gguf.gguf_embedding.default, (blocks[:, :34], indices, "q8_0", bf16), {}
    yield gguf.gguf_embedding.default, (torch.zeros(6, 144, dtype=torch.uint8), torch.zeros(4).long(), "q4_k", bf16), {}
    for x in (rand(64), rand(2, 3, 64), rand(3, 2, 64, dtype=bf16).transpose(0, 1)):
        yield gguf.gguf_linear.default, (x, blocks, "q8_0"), {}
        yield gguf.gguf_linear.default, (x, blocks, "q8_0", True), {}
    scale, zero = torch.tensor(0.5), torch.tensor(3)
    q_per_tensor, q_per_channel = decomposed.quantize_per_tensor, decomposed.quantize_per_channel
    d_per_tensor, d_per_channel = decomposed.dequantize_per_tensor, decomposed.dequantize_per_channel
    for x in (
        rand(3, 4), rand(4, 3).t(), rand(2, 3, 4).transpose(0, 1),
        rand(2, 3, 4, 4).to(memory_format=torch.channels_last), rand(3, 1).expand(3, 4), rand(3, 8)[:, ::2],
        rand(0, 4), torch.tensor(1.0), rand(3, 4, dtype=bf16),
    ):  # fmt: skip
        quantised = x.to(i8)
        to_i8, to_u8 = (-128, 127, i8), (0, 255, torch.uint8)
        yield q_per_tensor.default, (x, 0.5, 3, *to_i8), {}
        yield q_per_tensor.tensor, (x, scale, zero, *to_u8), {}
        yield d_per_tensor.default, (quantised, 0.5, 3, *to_i8), {}
        yield d_per_tensor.default, (quantised, 0.5, 3, *to_i8), {"out_dtype": bf16}
        yield d_per_tensor.tensor, (quantised, scale, zero, *to_i8), {}
        yield d_per_tensor.tensor, (quantised, scale, zero, *to_i8), {"out_dtype": torch.float16}
        # By channels, eager and FakeTensor disagree on the layout of expanded tensors.
        for axis in (0, -1) if x.dim() > 0 and 0 not in x.stride() else ():
            scales, zeros = rand(x.shape[axis]), rand(x.shape[axis], dtype=torch.int64)
            yield q_per_channel.default, (x, scales, zeros, axis, *to_i8), {}
            yield d_per_channel.default, (quantised, scales, zeros, axis, *to_i8), {}
            yield d_per_channel.default, (quantised, scales, None, axis, *to_i8), {"out_dtype": bf16}


def calls() -> Iterator[Call]:
    yield from additions()
    yield from factors()
    yield from rnn_layers()
    yield from convolutions()
    yield from attention()
    yield from quantised()
