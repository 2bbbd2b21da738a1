# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/tensors/shapes.cc and indexing.cc."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch_npu
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.python.device.npu_operators import check, check_gradient, integers, normal


def into(reference):
    """Returns a reference for the overload ``out`` of an operator."""

    def call(*args, out, **kwargs):
        return out.copy_(reference(*args, **kwargs))

    return call


def check_out(op, args, reference, size, **kwargs) -> None:
    check(op.default, args, reference, **kwargs)
    check(op.out, args, into(reference), out=torch.empty(size, dtype=args[0].dtype), **kwargs)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis: int) -> None:
    def reference(x, num_classes, depth, on_value=1, off_value=0):
        out = torch.full((*x.shape, depth), float(off_value))
        for place in np.ndindex(*x.shape):
            if 0 <= x[place] < depth:
                out[place][int(x[place])] = on_value
        return out.movedim(-1, num_classes)

    x = integers(-1, 7, 3, 4, dtype=torch.int32)
    check(torch_npu.npu_one_hot, (x, axis, 5), reference)
    check(torch_npu.npu_one_hot, (x, axis, 5, 2.5, -1), reference)
    check(torch_npu.npu_one_hot, (x.clamp_min(0).to(torch.uint8), axis, 300), reference)  # more than uint8 can count


def test_pad_and_its_gradient_match_the_reference() -> None:
    def reference(x, paddings):
        return torch.from_numpy(np.pad(x.numpy(), np.array(paddings).reshape(-1, 2)))

    check(torch_npu.npu_pad, (normal(2, 3, 4), [1, 2, 0, 1, 3, 0]), reference)
    check_gradient(
        torch_npu.npu_pad, (normal(2, 3), [1, 0, 2, 1]), lambda x, _: torch.nn.functional.pad(x, (2, 1, 1, 0))
    )


def test_slice_and_its_gradient_match_the_reference() -> None:
    args = (normal(4, 5), [1, 2], [2, -1])
    check_out(torch.ops.npu.npu_slice, args, lambda x, *_: x[1:3, 2:], (2, 3))
    check_gradient(torch_npu.npu_slice, args, lambda x, *_: x[1:3, 2:])


def test_copies_in_another_shape() -> None:
    ops = torch.ops.npu
    check_out(ops.npu_transpose, (normal(2, 3, 4), [2, 0, 1]), lambda x, p: x.permute(p), (4, 2, 3))
    check(ops.npu_transpose, (normal(2, 3), [0, 1], False), lambda x, p, _: x)
    check_out(ops.npu_broadcast, (normal(3, 1), [2, 3, 4]), lambda x, size: x.expand(size), (2, 3, 4))
    check_out(ops.npu_reshape, (normal(4, 6), [3, 8]), lambda x, shape: x.reshape(shape), (3, 8))
    check(ops.npu_reshape, (normal(4, 6).t(), [-1, 8]), lambda x, shape: x.reshape(shape), dynamic=False)
    args = (normal(30), [3, 4], [5, 2], 1)
    check_out(ops.npu_stride_copy, args, lambda x, *a: x.as_strided(*a), (3, 4))


@pytest.mark.parametrize(
    ("perm", "shape", "transpose_first"), [((0, 2, 1, 3), (2, 4, 18), True), ((0, 2, 1), (2, 12, 6), False)]
)
def test_confusion_transpose(perm, shape, transpose_first: bool) -> None:
    def reference(x, perm, shape, transpose_first):
        return x.permute(perm).reshape(shape) if transpose_first else x.reshape(shape).permute(perm)

    x = normal(2, 3, 4, 6)
    args = (perm, shape, transpose_first)
    check(torch_npu.npu_confusion_transpose, (x, *args), reference)
    check_gradient(torch_npu.npu_confusion_transpose, (x, *args), reference)
    y = reference(x, *args)

    def backward(grad, *_):
        leaf = x.double().requires_grad_()
        reference(leaf, *args).backward(grad)
        return leaf.grad

    check(torch_npu.npu_confusion_transpose_backward, (y.contiguous(), perm, list(x.shape), transpose_first), backward)


def test_view_copy_and_one() -> None:
    check(torch_npu.npu_view_copy, (normal(3, 4), normal(3, 4, seed=1), False), lambda x, y, _: x.copy_(y))
    check(torch_npu.one_, (normal(3, 4),), lambda x: x.fill_(1))


def test_sort_v2() -> None:
    for kwargs in ({}, {"dim": 0, "descending": True}):
        check_out(torch.ops.npu.npu_sort_v2, (normal(4, 5),), lambda x, **k: x.sort(**k).values, (4, 5), **kwargs)


def test_stride_add() -> None:
    def groups(x, first, count):
        out = torch.zeros(x.shape[0], 16 * count, *x.shape[2:], dtype=x.dtype)
        part = x[:, 16 * first : 16 * (first + count)]
        out[:, : part.shape[1]] = part
        return out

    args = (normal(2, 40, 3), normal(2, 20, 3, seed=1), 1, 0, 2)
    check(torch_npu.npu_stride_add, args, lambda x, y, a, b, n: groups(x, a, n) + groups(y, b, n))


def test_prefetch_does_nothing() -> None:
    x = normal(4).npu()
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        for one in (x, x.cpu(), fake.from_tensor(x)):
            with pytest.raises(RuntimeError, match=r"npu_prefetch: max_size is -1, allowed are numbers above 0"):
                torch_npu.npu_prefetch(one, None, -1)
            with pytest.raises(RuntimeError, match=r"npu_prefetch: offset is -2, allowed are 0 and more"):
                torch_npu.npu_prefetch(one, None, 8, -2)
    assert torch_npu.npu_prefetch(x, None, 16) is None
    compiled = torch.compile(lambda x: (torch_npu.npu_prefetch(x, x, 8, 2), x + 1)[1], backend="npugraph_ex")
    assert torch.equal(compiled(x).cpu(), x.cpu() + 1)


INDEXING = [
    (([0, 1], [2, 4], [1, 2]), {}, np.s_[0:2, 1:4:2]),
    (([-3, -1], [-1, 0], [1, -2]), {}, np.s_[-3:-1, -1:0:-2]),
    (([0, 9], [9, -9], [1, -1]), {}, np.s_[0:9, 9:-9:-1]),
    (([1, 2], [3, 3], [1, 1]), {"begin_mask": 1, "end_mask": 2}, np.s_[:3, 2:]),
    (([1, 2], [3, 3], [1, -1]), {"begin_mask": 2, "end_mask": 2}, np.s_[1:3, ::-1]),
    (([0, -2], [0, 0], [1, 1]), {"ellipsis_mask": 1, "shrink_axis_mask": 2}, np.s_[..., -2]),
    (([0, 0, 1], [0, 0, 3], [1, 1, 1]), {"new_axis_mask": 2, "shrink_axis_mask": 1}, np.s_[0, np.newaxis, 1:3]),
]


@pytest.mark.parametrize(("spec", "masks", "index"), INDEXING)
def test_indexing_is_that_of_numpy(spec, masks, index) -> None:
    def reference(x, *_, **__):
        return torch.from_numpy(np.ascontiguousarray(x.numpy()[index]))

    x = normal(4, 5, 6)
    check_out(torch.ops.npu.npu_indexing, (x, *spec), reference, reference(x).shape, **masks)


def test_gather_sparse_index() -> None:
    x, index = normal(5, 3, 2), integers(0, 5, 2, 4)
    check(torch_npu.npu_gather_sparse_index, (x, index), lambda x, i: x[i])
    check_gradient(torch_npu.npu_gather_sparse_index, (x, index), lambda x, i: x[i])

    def backward(grad, sizes, index):
        leaf = torch.zeros(sizes, dtype=grad.dtype).requires_grad_()
        leaf[index].backward(grad)
        return leaf.grad

    args = (normal(2, 4, 3, 2, seed=1), [5, 3, 2], index)
    check(torch_npu.npu_gather_sparse_index_backward, args, backward)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize(
    ("op", "backward", "find"),
    [
        (torch.ops.npu.npu_max.dim, torch_npu.npu_max_backward, torch.max),
        (torch.ops.npu.npu_min.dim, torch_npu.npu_min_backward, torch.min),
    ],
    ids=["max", "min"],
)
def test_extrema_and_their_gradients_are_those_of_torch(op, backward, find, keepdim: bool) -> None:
    x = normal(4, 5, 3)
    check(op, (x, 1, keepdim), lambda x, *a: tuple(find(x, *a)))
    check_gradient(op, (x, 1, keepdim), lambda x, *a: tuple(find(x, *a)))
    values, indices = op(x, 1, keepdim)

    def reference(grad, *_):
        leaf = x.double().requires_grad_()
        find(leaf, 1, keepdim).values.backward(grad)
        return leaf.grad

    check(backward, (normal(*values.shape, seed=1), 1, indices, [4, 5, 3], keepdim), reference)


def test_index_add() -> None:
    args = (normal(5, 3), integers(0, 5, 4), normal(4, 3, seed=1))
    check(torch.ops.npu._npu_index_add, args, lambda x, i, y, alpha=1: x.index_add(0, i, y, alpha=alpha))
    check(torch.ops.npu._npu_index_add, args, lambda x, i, y, alpha=1: x.index_add(0, i, y, alpha=alpha), alpha=2.5)
    check(torch.ops.npu._npu_index_add_, args, lambda x, i, y, alpha=1: x.index_add_(0, i, y, alpha=alpha))


@pytest.mark.parametrize(("shape", "axis"), [((4, 6), 1), ((4, 3, 6), -1), ((3, 6, 2), 1), ((6,), 0)])
def test_masked_fill_range(shape, axis: int) -> None:
    def reference(x, start, end, value, axis):
        out = x.clone()
        for i, b in np.ndindex(*start.shape):
            row = out if x.dim() == 1 else out[b]
            row.movedim(axis if axis < 0 or x.dim() == 1 else axis - 1, 0)[int(start[i, b]) : int(end[i, b])] = value[i]
        return out

    columns = min(3, shape[0]) if len(shape) > 1 else 1
    start = integers(0, 4, 2, columns, dtype=torch.int32)
    end = start + integers(1, 3, 2, columns, dtype=torch.int32, seed=1)
    check(torch_npu.npu_masked_fill_range, (normal(*shape), start, end, torch.tensor([1.0, -2.0]), axis), reference)


def test_sign_bits() -> None:
    x = torch.tensor([5, 4, 3, 2, 0, -1, -2, 4, 3, 2, 1, 0, -1, -2], dtype=torch.float32)
    packed = torch.tensor([[159], [15]], dtype=torch.uint8)
    check(torch_npu.npu_sign_bits_pack, (x, 2), lambda *_: packed)
    bits = [1, 1, 1, 1, 1, -1, -1, 1, 1, 1, 1, 1, -1, -1, -1, -1]
    unpacked = torch.tensor(bits, dtype=torch.float64).view(2, 8)
    check(torch_npu.npu_sign_bits_unpack, (packed.view(-1), 2, torch.float16), lambda *_: unpacked)


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_repeat_interleave_backward(dim: int | None) -> None:
    x = normal(3, 4)
    length = x.numel() if dim is None else x.shape[dim]
    ops = torch.ops.npu
    for op, repeats in (
        (ops.repeat_interleave_backward_int, 2),
        (ops.repeat_interleave_backward_tensor, integers(0, 3, length)),
        (ops.repeat_interleave_backward_tensor, torch.tensor([3])),
    ):

        def reference(grad, x, repeats, dim):
            leaf = x.clone().requires_grad_()
            leaf.repeat_interleave(repeats, dim).backward(grad)
            return leaf.grad

        check(op, (normal(*x.repeat_interleave(repeats, dim).shape, seed=1), x, repeats, dim), reference)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: torch_npu.npu_pad(normal(2, 3), [1, 1]),
            r"npu_pad: paddings has 2 elements, allowed are two for each",
        ),
        (lambda: torch_npu.npu_slice(normal(2, 3), [0], [1, 1]), r"npu_slice: offsets has 1 elements, input has 2"),
        (lambda: torch_npu.npu_one_hot(normal(2), -1, 3), r"npu_one_hot: input is of type Float, allowed are Int"),
        (
            lambda: torch_npu.npu_indexing(normal(2), [0, 0], [1, 1], [1, 1]),
            r"npu_indexing: 2 dimensions are indexed, input has 1",
        ),
        (lambda: torch_npu.npu_indexing(normal(2), [0], [1], [0]), r"npu_indexing: strides has a 0"),
        (
            lambda: torch.ops.npu.npu_transpose.out(normal(2, 3), [1, 0], out=normal(2, 3)),
            r"npu_transpose: out has shape \[2, 3\], and not that of the result, \[3, 2\]",
        ),
        (
            lambda: torch_npu.npu_sign_bits_pack(normal(14), 3),
            r"npu_sign_bits_pack: size is 3, but there are 2 bytes",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(call, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        call()
