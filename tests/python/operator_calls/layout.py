# SPDX-License-Identifier: Apache-2.0
"""Copies, parts put together, padding: operators that move elements and hardly compute."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch

from tests.python.operator_calls import Call, whole

aten = torch.ops.aten

# Some calls are left out here and tested in tests/unit/core/ops/infer_test.cc. FakeTensor makes reflection_pad3d and
# replication_pad3d of a volume, the gradients of reflection_pad2d and replication_pad2d of an image, and
# native_channel_shuffle row-major, as CUDA does, where eager on the CPU keeps channels last. Under FakeTensor,
# slice_inverse fails, and block_diag promotes a tensor without dimensions as if it had some.


def _copied() -> Iterator[Call]:
    x = torch.randn(2, 3, 4)
    y = torch.randn(2, 4, 3).transpose(1, 2)
    wide = torch.randn(3, 1).expand(3, 5)
    odd = torch.randn(3, 10)[:, ::2]
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    volume = torch.randn(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d)
    empty = torch.randn(0, 4)
    ids = torch.arange(12).reshape(3, 4)
    scalar = torch.tensor(2.5)
    tensors = (x, y, wide, odd, image, volume, empty, ids, ids > 3, x.bfloat16(), scalar)
    for z in tensors:
        for function in (aten.lift_fresh_copy.default, aten.alias_copy.default, aten.detach_copy.default):
            yield function, (z,), {}
        yield aten.clone.default, (z,), {}
        yield aten.clone.default, (z,), {"memory_format": torch.contiguous_format}
        yield aten._to_copy.default, (z,), {"dtype": torch.float64}
        yield aten.copy.default, (z, torch.ones(())), {}
        if z.dim() >= 2:
            yield aten.tril.default, (z,), {}
            yield aten.triu.default, (z, -1), {}
    yield aten.clone.default, (torch.randn(2, 3, 4, 5),), {"memory_format": torch.channels_last}
    yield aten.copy.default, (x, y), {}
    yield aten.copy_.default, (torch.randn(2, 4, 3).transpose(1, 2), x), {}
    yield aten.copy_.default, (torch.zeros(3, 4), torch.arange(4)), {}
    for function in (aten.tril_.default, aten.triu_.default):
        yield function, (torch.randn(2, 3, 4),), {}
        yield function, (torch.randn(4, 3).t(), 1), {}
    yield aten.copy.default, (y, x.bfloat16()), {}
    yield aten.copy.default, (wide, torch.randn(3, 5)), {}


def _rearranged() -> Iterator[Call]:
    x = torch.randn(2, 3, 4)
    y = torch.randn(2, 4, 3).transpose(1, 2)
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    wide = torch.randn(3, 1).expand(3, 5)
    odd = torch.randn(3, 10)[:, ::2]
    empty = torch.randn(0, 4)
    ids = torch.arange(12).reshape(3, 4)
    for z in (x, y, image, wide, odd, ids, ids > 3, empty, x.bfloat16(), ids.t()):
        last = z.dim() - 1
        yield aten.roll.default, (z, [1], [0]), {}
        yield aten.roll.default, (z, [1]), {}
        yield aten.roll.default, (z, [1, -2], [0, -1]), {}
        yield aten.flip.default, (z, [0]), {}
        yield aten.flip.default, (z, [0, -1]), {}
        yield aten.flip.default, (z, []), {}
        for k in range(-1, 4):
            yield aten.rot90.default, (z, k, [0, last]), {}
        yield aten.rot90.default, (z, 1, [-1, 0]), {}
        yield aten.rot90.default, (z,), {}
    for z in (torch.tensor(1.5), torch.randn(4), torch.randn(1)):
        yield aten.roll.default, (z, [1]), {}
        yield aten.flip.default, (z, []), {}
    yield aten.flip.default, (torch.randn(4), [-1]), {}
    yield aten.flip.default, (torch.randn(1, 4).expand(3, 4), [1]), {}
    yield aten.flip.default, (torch.randn(2, 1, 4), [1]), {}
    for z, groups in (
        (torch.randn(2, 6, 4, 5), 3),
        (torch.randn(1, 4, 5), 2),
        (torch.randn(2, 5, 4).transpose(1, 2), 2),
    ):
        yield aten.native_channel_shuffle.default, (z, groups), {}


def _repeated() -> Iterator[Call]:
    x = torch.randn(2, 3)
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for z in (x, x.t(), torch.arange(6).reshape(2, 3), torch.randn(0, 3)):
        for repeats in ((1, 1), (2, 3), (4, 1, 2), (0, 2), (1, 0)):
            yield aten.repeat.default, (z, list(repeats)), {}
        for repeats in ((), (2,), (2, 3), (4, 1, 2), (0, 2)):
            yield whole(aten.tile.default), (z, list(repeats)), {}
    for z in (torch.tensor(2), torch.tensor(True)):
        for repeats in ([], [3], [2, 2]):
            yield aten.repeat.default, (z, repeats), {}
            yield whole(aten.tile.default), (z, repeats), {}
    yield aten.repeat.default, (image, [1, 1, 2, 1]), {}
    yield whole(aten.tile.default), (image, [2]), {}
    a, b = torch.randn(2, 3), torch.randn(4, 5)
    for left, right in ((a, b), (a.t(), b), (a, torch.randn(5)), (torch.tensor(2.0), b), (a, torch.tensor(True))):
        yield whole(aten.kron.default), (left, right), {}
    yield whole(aten.kron.default), (torch.arange(3), torch.randn(2, 2, 2)), {}
    yield whole(aten.kron.default), (torch.ones(2, 2, dtype=torch.bool), torch.arange(4)), {}
    yield whole(aten.kron.default), (a.bfloat16(), b), {}
    yield whole(aten.kron.default), (torch.randn(0, 2), b), {}


def _scattered() -> Iterator[Call]:
    x = torch.randn(4, 5, 6)
    y = torch.randn(4, 6, 5).transpose(1, 2)
    wide = torch.randn(5, 6).expand(4, 5, 6)
    odd = torch.randn(4, 5, 12)[:, :, ::2]
    gap = torch.randn(6, 5, 6)[1:5]
    for z in (x, y, wide, odd, gap, x.bfloat16(), torch.arange(120).reshape(4, 5, 6), x > 0):
        yield aten.slice_scatter.default, (z, torch.ones(4, 2, 6, dtype=z.dtype), 1, 1, 3), {}
        yield aten.slice_scatter.default, (z, torch.ones(2, 5, 6), 0, None, None, 2), {}
        yield aten.slice_scatter.default, (z, torch.ones(4, 5, 1), -1, -1), {}
        yield aten.select_scatter.default, (z, torch.ones(4, 6), 1, -1), {}
        yield aten.select_scatter.default, (z, torch.ones(5, 6, dtype=z.dtype), 0, 2), {}
        yield aten.diagonal_scatter.default, (z, torch.ones(6, 4)), {}
        yield aten.diagonal_scatter.default, (z, torch.ones(5, 4), 1, 0, 2), {}
    for z in (x, gap, torch.arange(120).reshape(4, 5, 6)):
        yield aten.as_strided_scatter.default, (z, torch.ones(2, 3, dtype=z.dtype), [2, 3], [6, 2]), {}
        yield aten.as_strided_scatter.default, (z, torch.ones(2, 3, dtype=z.dtype), [2, 3], [6, 2], 40), {}


def _backward() -> Iterator[Call]:
    for g in (torch.randn(2, 3), torch.randn(3, 2).t(), torch.ones(2, 3, dtype=torch.bfloat16)):
        yield aten.slice_backward.default, (g, [2, 8], 1, 2, 5, 1), {}
        yield aten.slice_backward.default, (g, [6, 3], -2, 0, 6, 3), {}
        yield aten.select_backward.default, (g, [2, 5, 3], 1, 2), {}
        yield aten.select_backward.default, (g, [2, 3, 4], -1, -1), {}
        yield aten.diagonal_backward.default, (g, [4, 4, 2], 1, 0, 1), {}
        yield aten.diagonal_backward.default, (g, [3, 2, 5], 0, 0, 2), {}
    for g in (torch.randn(2, 3, 4), torch.randn(2, 4, 3).transpose(1, 2), torch.randn(2, 3, 4).bfloat16()):
        yield aten.unfold_backward.default, (g, [2, 8], 1, 4, 2), {}
        yield aten.unfold_backward.default, (g, [2, 6], -1, 4, 1), {}
    yield aten.unfold_backward.default, (torch.randn(3, 5, 2), [4, 5], 0, 2, 1), {}
    yield aten.select_backward.default, (torch.tensor(1.0), [4], 0, 1), {}


def _view_copies() -> Iterator[Call]:
    x = torch.randn(2, 6, 4)
    tensors = (
        x,
        torch.randn(4, 6, 2).permute(2, 1, 0),
        torch.randn(6, 4).expand(2, 6, 4),
        torch.randn(2, 6, 8)[:, :, ::2],
        torch.arange(48).reshape(2, 6, 4),
        x > 0,
        x.bfloat16(),
    )
    for z in tensors:
        yield aten.narrow_copy.default, (z, 1, 2, 3), {}
        yield aten.narrow_copy.default, (z, -1, -2, 2), {}
        yield (lambda z: aten.view_copy.default(z, [z.shape[0] * z.shape[1], z.shape[2]])), (z,), {}
        yield (lambda z: aten.view_copy.default(z, [-1, z.shape[2], 1])), (z,), {}
        yield aten.expand_copy.default, (z, [3, -1, 6, -1]), {}
        yield aten.expand_copy.default, (z[:, :1], [2, 5, 4]), {"implicit": True}
        yield aten.permute_copy.default, (z, [2, 0, 1]), {}
        yield aten.permute_copy.default, (z, [0, -1, 1]), {}
        yield aten.slice_copy.Tensor, (z, 1, 1, 5, 2), {}
        yield aten.slice_copy.Tensor, (z,), {}
        yield aten.slice_copy.Tensor, (z, -1, -3), {}
        yield aten.select_copy.int, (z, 1, 2), {}
        yield aten.select_copy.int, (z, -1, -1), {}
        yield aten.transpose_copy.int, (z, 0, 2), {}
        yield aten.transpose_copy.int, (z, -1, 1), {}
        yield aten.t_copy.default, (z[0],), {}
        yield aten.squeeze_copy.default, (z[:, :1],), {}
        yield aten.squeeze_copy.default, (z,), {}
        yield aten.squeeze_copy.dim, (z[:, :1], 1), {}
        yield aten.squeeze_copy.dim, (z, -1), {}
        yield aten.squeeze_copy.dims, (z[:1, :1], [0, 1]), {}
        yield aten.squeeze_copy.dims, (z[:1], [0, -1]), {}
        yield aten.unsqueeze_copy.default, (z, 0), {}
        yield aten.unsqueeze_copy.default, (z, -1), {}
        yield aten.unsqueeze_copy.default, (z, -2), {}
        yield aten.as_strided_copy.default, (z, [2, 3], [1, 2]), {}
        yield aten.as_strided_copy.default, (z, [3, 2], [2, 1], 1), {}
        yield aten.as_strided_copy.default, (z, [3, 2], [1, 3]), {}
        yield aten.diagonal_copy.default, (z,), {}
        yield aten.diagonal_copy.default, (z, -1, 2, 1), {}
        yield aten.unfold_copy.default, (z, 1, 3, 2), {}
        yield aten.unfold_copy.default, (z, -1, 2, 1), {}
        for function in (aten.split_copy.Tensor, aten.unsafe_split.Tensor):
            yield function, (z, 4, 1), {}
            yield function, (z, 1), {}
        for function in (aten.split_with_sizes_copy.default, aten.unsafe_split_with_sizes.default):
            yield function, (z, [1, 2, 3], 1), {}
            yield function, (z, [0, 2]), {}
        yield aten.unbind_copy.int, (z,), {}
        yield aten.unbind_copy.int, (z, -1), {}
    for z in (torch.randn(3, 2, dtype=torch.complex64), torch.randn(3, 2, dtype=torch.complex128).t()):
        yield aten.view_as_real_copy.default, (z,), {}
    for z in (torch.randn(3, 4, 2), torch.randn(4, 3, 2, dtype=torch.float64).transpose(0, 1)):
        yield aten.view_as_complex_copy.default, (z,), {}
    yield aten.t_copy.default, (torch.randn(4),), {}
    yield aten.t_copy.default, (torch.tensor(1),), {}
    yield aten.view_copy.default, (x, [-1]), {}
    yield aten.view_copy.default, (torch.randn(0, 4), [4, 0]), {}
    yield aten.expand_copy.default, (torch.randn(3, 1), [2, 3, 4]), {}
    yield aten.diagonal_copy.default, (torch.randn(3, 3), 5), {}


def _put_together() -> Iterator[Call]:
    x = torch.randn(2, 3, 4)
    y = torch.randn(2, 4, 3).transpose(1, 2)
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    ids = torch.arange(24).reshape(2, 3, 4)
    lists = (
        [x, x],
        [x],
        [x, y],
        [y, y],
        [y, x],
        [image, image],
        [image, image.contiguous()],
        [ids, x],
        [x.bfloat16(), x],
        [ids > 3, ids],
        [torch.randn(4, 3).expand(2, 4, 3), torch.randn(2, 4, 3)],
        [torch.randn(3, 10)[:, ::2], torch.randn(3, 10)[:, ::2]],
        [torch.randn(0, 4), torch.randn(0, 4)],
    )
    for tensors, dim in itertools.product(lists, (0, 1, -1)):
        for function in (aten.cat.default, whole(aten.concat.default), aten.stack.default):
            yield function, (tensors, dim), {}
    for function in (aten.cat.default, whole(aten.concat.default)):
        yield function, ([torch.randn(0), torch.randn(2, 3), torch.randn(4, 3)],), {}
        yield function, ([torch.randn(2, 3), torch.randn(0)], 1), {}
        yield function, ([torch.randn(2, 3), torch.randn(2, 0), torch.randn(2, 5)], 1), {}
        yield function, ([torch.randn(3, dtype=torch.float64), torch.arange(4)],), {}
        yield function, ([torch.randn(0), torch.randn(0)],), {}
    yield aten.stack.default, ([torch.tensor(1.0), torch.tensor(2.0)],), {}
    yield aten.stack.default, ([torch.tensor(1.0), torch.tensor(2)],), {}
    sequences = [torch.randn(3, 2), torch.randn(5, 2), torch.randn(1, 2)]
    yield whole(aten.pad_sequence.default), (sequences,), {}
    yield whole(aten.pad_sequence.default), (sequences, True, 1.5), {}
    yield whole(aten.pad_sequence.default), ([torch.arange(4), torch.arange(2)], True, -1.0, "left"), {}
    yield whole(aten.pad_sequence.default), ([torch.randn(2, 4, 3).transpose(1, 2)] * 2,), {}
    yield aten.block_diag.default, ([torch.randn(2, 3), torch.randn(4), torch.tensor(1.0)],), {}
    yield aten.block_diag.default, ([torch.arange(3), torch.randn(2, 2)],), {}
    yield aten.block_diag.default, ([torch.randn(3, 2).t(), torch.randn(0, 2)],), {}
    yield aten.block_diag.default, ([torch.randn(2, 3).bfloat16()],), {}
    yield whole(aten.cartesian_prod.default), ([torch.arange(3), torch.arange(4)],), {}
    yield whole(aten.cartesian_prod.default), ([torch.randn(3), torch.randn(2), torch.randn(5)],), {}
    yield whole(aten.cartesian_prod.default), ([torch.arange(3)],), {}
    for offset, dims in ((0, ()), (1, ()), (-2, (0, 1)), (1, (0, 2)), (0, (-1, 0)), (3, (-2, -1))):
        for z in (torch.randn(2, 3), torch.randn(3, 2).t(), torch.arange(6).reshape(2, 3), torch.ones(2, 3).bfloat16()):
            yield aten.diag_embed.default, (z, offset, *dims), {}
    yield aten.diag_embed.default, (torch.randn(3),), {}
    yield aten.diag_embed.default, (torch.tensor([True, False]), -1), {}


def _padded() -> Iterator[Call]:
    line = torch.randn(2, 3, 6)
    image = torch.randn(2, 3, 5, 6)
    last = torch.randn(2, 3, 5, 6).to(memory_format=torch.channels_last)
    volume = torch.randn(2, 3, 4, 5, 6)
    last3d = volume.to(memory_format=torch.channels_last_3d)
    turned = torch.randn(2, 3, 6, 5).transpose(2, 3)
    alternatives = (line, line.transpose(0, 1), image, last, turned, volume, last3d, image.bfloat16(), image > 0)
    for z in alternatives:
        for pad in ([1, 2], [0, 0], [1, -1], [-1, -2], [2, 0, 1, 1], [0, 0, 1, 0], [-1, 0, 0, -1], [-1, 2, -1, 0], []):
            yield aten.constant_pad_nd.default, (z, pad), {}
        yield aten.constant_pad_nd.default, (z, [1] * (2 * z.dim()), 1), {}
    yield aten.constant_pad_nd.default, (torch.arange(4), [0, 3], -1), {}
    yield aten.constant_pad_nd.default, (torch.randn(0, 4), [1, 1, 2, 0]), {}
    yield aten.constant_pad_nd.default, (torch.tensor(1.0), []), {}
    reflect = (aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.reflection_pad3d.default)
    replicate = (aten.replication_pad1d.default, aten.replication_pad2d.default, aten.replication_pad3d.default)
    for z in (line, line.transpose(0, 1), line[0], line.transpose(1, 2), line.bfloat16()):
        for function, pad in itertools.product((reflect[0], replicate[0]), ([1, 2], [0, 0], [2, -1])):
            yield function, (z, pad), {}
    for z in (image, last, turned, image[0], last[0], image.double()):
        for function, pad in itertools.product((reflect[1], replicate[1]), ([1, 2, 0, 3], [0, 0, 0, 0], [2, -1, 1, 0])):
            yield function, (z, pad), {}
    for z in (volume, volume[0], volume.transpose(3, 4), last3d[0]):
        for function, pad in itertools.product((reflect[2], replicate[2]), ([1, 2, 0, 3, 1, 1], [-1, 0, 0, 0, 2, 0])):
            yield function, (z, pad), {}
    yield reflect[0], (torch.arange(12).reshape(3, 4), [1, 1]), {}
    yield replicate[0], (torch.arange(12).reshape(3, 4), [1, 1]), {}
    for z in (line, line[0], line.transpose(0, 1), line.transpose(1, 2)):
        pad = [1, 2]
        yield aten.reflection_pad1d_backward.default, (torch.ones_like(reflect[0](z, pad)), z, pad), {}
    for z in (image, image[0], turned, image.double()):
        pad = [1, 2, 0, 3]
        yield aten.reflection_pad2d_backward.default, (torch.ones_like(reflect[1](z, pad)), z, pad), {}
        yield aten.replication_pad2d_backward.default, (torch.ones_like(replicate[1](z, pad)), z, pad), {}


def _indices() -> Iterator[Call]:
    for function in (aten.tril_indices.default, aten.triu_indices.default):
        for rows, columns, offset in itertools.product((0, 1, 3, 5), (0, 1, 4), (-6, -2, -1, 0, 1, 3, 7)):
            yield function, (rows, columns, offset), {"device": "cpu"}
        yield function, (3, 4), {"dtype": torch.int32, "device": "cpu"}


def calls() -> Iterator[Call]:
    yield from _copied()
    yield from _rearranged()
    yield from _repeated()
    yield from _scattered()
    yield from _backward()
    yield from _view_copies()
    yield from _put_together()
    yield from _padded()
    yield from _indices()
