# SPDX-License-Identifier: Apache-2.0
"""Operators that read and write at indices, look up, search and count."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.python.operator_calls import EMPTY, EXPANDED, HOLES, SCALAR, Call

aten = torch.ops.aten

X = torch.arange(24.0).reshape(2, 3, 4)
LAST = X.permute(1, 2, 0)  # (3, 4, 2), with its first dimension second innermost in memory
IMAGE = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
LAYOUTS = (X, LAST, IMAGE, EXPANDED, HOLES)
WRITABLE = (X, LAST, IMAGE, HOLES, X.long(), X.bfloat16())


def long(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def calls() -> Iterator[Call]:
    yield from _index()
    yield from _take()
    yield from _scatter()
    yield from _write()
    yield from _embedding()
    yield from _search()
    yield from _count()


def _index() -> Iterator[Call]:
    pair, column, mask = long(0, 1), torch.tensor([[0], [1], [0]]), torch.tensor([True, False])
    image_mask = torch.rand(2, 3) > 0.5
    for index in (aten.index.Tensor, aten._unsafe_index.Tensor):
        for x in (X, X.transpose(0, 2), LAST, X.bfloat16()):
            for indices in (
                [pair],
                [None, pair],
                [None, None, pair],
                [pair, pair],
                [pair, column],
                [pair, None, column],
                [None, pair, column],
                [pair, pair, pair],
                [column.int()],
                [torch.tensor(1), None, pair],
                [long()],
            ):
                yield index, (x, indices), {}
        for indices in (
            [pair],
            [None, pair],
            [pair, None, None, column],
            [None, None, column, pair],
            [pair, None, pair],
        ):
            yield index, (IMAGE, indices), {}
            yield index, (IMAGE.to(torch.int64), indices), {}
        yield index, (EXPANDED, [pair]), {}
        yield index, (EXPANDED, [None, pair]), {}
        yield index, (HOLES, [pair, pair]), {}
        yield index, (torch.rand(4), [torch.tensor(2)]), {}
        yield index, (torch.rand(0, 4), [None, pair]), {}
        # These calls have no transposed index. In eager, such an index orders the dimensions of the result that self
        # leaves open. FakeTensor ignores it.
        yield index, (X, [mask]), {}
        yield index, (X, [None, image_mask[0]]), {}
        yield index, (X, [mask, None, pair[:1]]), {}
        yield index, (IMAGE, [image_mask]), {}
        yield index, (X, [X > 3]), {}
    for x in (*LAYOUTS, SCALAR, X.long()):
        for dim in (0, -1):
            yield aten.index_select.default, (x, dim, long(0)), {}
    for x in LAYOUTS:
        yield aten.index_select.default, (x, -2, long(0, 1, 1).int()), {}
    yield aten.index_select.default, (X, 1, torch.tensor(1)), {}
    yield aten.index_select.default, (EMPTY, 1, long(1, 2)), {}
    yield aten.index_select.default, (X, 1, long()), {}
    yield aten.gather.default, (LAST, 1, torch.zeros(3, 2, 2, dtype=torch.int64)), {}
    yield aten.gather.default, (X, -1, torch.zeros(4, 3, 2, dtype=torch.int64).permute(2, 1, 0)), {}
    yield aten.gather.default, (SCALAR, 0, torch.tensor(0)), {"sparse_grad": True}


def _take() -> Iterator[Call]:
    for x in (*LAYOUTS, SCALAR):
        yield aten.take.default, (x, torch.tensor([[0], [0]])), {}
        yield aten.take.default, (x, torch.zeros(3, 2, dtype=torch.int64).t()), {}
        yield aten.masked_select.default, (x, x > 0.5), {}
    yield aten.masked_select.default, (X, torch.tensor([True, False, True, True])), {}
    yield aten.masked_select.default, (torch.rand(4).half(), X > 1), {}
    yield aten.masked_select.default, (EMPTY, EMPTY > 1), {}
    yield aten.nonzero.default, (SCALAR,), {}
    yield aten.nonzero.default, (EMPTY,), {}
    for x in LAYOUTS:
        yield aten.nonzero.default, (x,), {}
        yield aten.nonzero.default, (x > 0.5,), {}
        yield aten.nonzero_static.default, (x,), {"size": 7}
        yield aten.nonzero_static.default, (x > 0.5,), {"size": 3, "fill_value": 0}
    yield aten.nonzero_static.default, (SCALAR,), {"size": 0}


def _scatter() -> Iterator[Call]:
    for x in (*WRITABLE, EXPANDED):
        index = torch.zeros_like(x, dtype=torch.int64)[:, :2]
        src = torch.ones_like(x).transpose(0, 1).contiguous().transpose(0, 1)
        for end in ("",) if x is EXPANDED else ("", "_"):
            scatter = getattr(aten, f"scatter{end}")
            yield scatter.src, (x, 0, index, src), {}
            yield scatter.value, (x, -1, index, 2), {}
            yield scatter.reduce, (x, 0, index, src), {"reduce": "add"}
            yield scatter.value_reduce, (x, 0, index, 2), {"reduce": "multiply"}
            yield getattr(aten, f"scatter_add{end}").default, (x, 0, index, src), {}
            yield getattr(aten, f"scatter_reduce{end}").two, (x, 0, index, src, "amax"), {}
            yield getattr(aten, f"scatter_reduce{end}").two, (x, 0, index, src, "sum"), {"include_self": False}
    zero = torch.tensor(0)
    yield aten.scatter.src, (SCALAR, 0, zero, SCALAR), {}
    yield aten.scatter.value, (EMPTY, 0, EMPTY.long(), 1.5), {}
    yield aten.scatter_add.default, (X, 1, long().reshape(0, 0, 0), X), {}


def _write() -> Iterator[Call]:
    pair = long(0, 1)
    for x in (*WRITABLE, EXPANDED):
        one, source = torch.ones((), dtype=x.dtype), torch.ones_like(x)[:2]
        for end in ("",) if x is EXPANDED else ("", "_"):
            yield getattr(aten, f"index_add{end}").default, (x, 0, pair, source), {"alpha": 2}
            yield getattr(aten, f"index_fill{end}").int_Scalar, (x, 1, pair, 3), {}
            yield getattr(aten, f"index_fill{end}").int_Tensor, (x, -1, pair, one), {}
            yield getattr(aten, f"index_copy{end}").default, (x, 0, pair, source), {}
            yield getattr(aten, f"index_reduce{end}").default, (x, 0, pair, source, "amax"), {"include_self": False}
            yield getattr(aten, f"put{end}").default, (x, pair, one.expand(2)), {}
            yield getattr(aten, f"put{end}").default, (x, pair, one.expand(2), True), {}
            yield getattr(aten, f"index_put{end}").default, (x, [pair], source), {}
            yield getattr(aten, f"index_put{end}").default, (x, [None, pair], one, True), {}
            yield getattr(aten, f"masked_scatter{end}").default, (x, x > 1, torch.ones_like(x)), {}
        yield aten._unsafe_index_put.default, (x, [pair], source), {}
        yield aten._unsafe_index_put.default, (x, [pair, pair], one, True), {}
    for x in WRITABLE:
        yield aten._index_put_impl_.default, (x, [pair], torch.ones_like(x)[:2]), {"accumulate": True}
        yield aten._index_put_impl_.default, (x, [pair], torch.ones_like(x)[:2]), {"unsafe": True}
    yield aten.index_add.default, (SCALAR, 0, torch.tensor(0), SCALAR), {}
    yield aten.index_copy.default, (SCALAR, 0, long(0), SCALAR), {}
    yield aten.index_put.default, (X, [X > 3], SCALAR), {}
    yield aten.index_put_.default, (X, [torch.tensor([True, False])], SCALAR), {}
    yield aten.masked_scatter.default, (torch.rand(4), X > 3, X), {}
    yield aten.masked_scatter.default, (LAST, torch.tensor([True, False]), X), {}
    yield aten.masked_scatter_.default, (LAST, torch.tensor([True, False]), X), {}


def _embedding() -> Iterator[Call]:
    weight = torch.rand(10, 4)
    columns = torch.rand(4, 10).t()
    grid = torch.tensor([[1, 2, 3], [4, 5, 6]])
    ids, offsets = long(1, 2, 3, 4, 5), long(0, 2, 5)
    for table in (weight, columns, weight.bfloat16()):
        for indices in (ids, grid, grid.t(), grid.int(), torch.tensor(1), long()):
            yield aten.embedding.default, (table, indices), {}
            yield aten.embedding.default, (table, indices, 1, True), {}
        yield aten.embedding_renorm_.default, (table, ids, 1.0, 2.0), {}
    # FakeTensor does not know the fast kernel for sums in bf16, nor the sizes of bags that the forward pass alone
    # returns with include_last_offset.
    for table in (weight, columns, weight.double(), weight.half()):
        for mode in (0, 1, 2):
            for bag in (aten._embedding_bag.default, aten._embedding_bag_forward_only.default):
                yield bag, (table, ids, offsets, False, mode), {}
                yield bag, (table, ids.int(), offsets.int(), True, mode, False, None, False, 1), {}
            yield aten._embedding_bag.default, (table, ids, offsets, False, mode, False, None, True), {}
        for scale in (torch.rand(5), torch.rand(10)[::2]):
            for bag in (aten._embedding_bag.default, aten._embedding_bag_forward_only.default):
                yield bag, (table, ids, offsets, False, 0, False, scale.to(table.dtype)), {}
    yield aten.embedding_dense_backward.default, (torch.rand(2, 3, 4), grid, 10, -1, False), {}
    yield aten.embedding_dense_backward.default, (torch.rand(4, 5).t().half(), ids, 12, 0, True), {}
    yield aten.embedding_dense_backward.default, (torch.rand(3, 2, 4).transpose(0, 1), grid, 10, 3, False), {}


def _search() -> Iterator[Call]:
    bounds = torch.tensor([1.0, 3.0, 5.0])
    for x in (*LAYOUTS, SCALAR, X.long(), X.bfloat16(), EMPTY):
        yield aten.bucketize.Tensor, (x, bounds), {}
        yield aten.bucketize.Tensor, (x, bounds.to(x.dtype)), {"out_int32": True, "right": True}
        yield aten.searchsorted.Tensor, (bounds, x), {}
        yield aten.searchsorted.Tensor, (bounds, x), {"out_int32": True, "side": "right"}
        # FakeTensor keeps the strides of other layouts.
        if x.is_contiguous():
            yield aten.isin.Tensor_Tensor, (x, bounds), {"invert": True}
            yield aten.isin.Tensor_Tensor, (x, torch.rand(30)), {}
            yield aten.isin.Tensor_Scalar, (x, 1), {"invert": True}
            yield aten.isin.Tensor_Scalar, (x, 1), {"assume_unique": True}
    yield aten.searchsorted.Tensor, (X, X.transpose(1, 2).contiguous().transpose(1, 2)), {}
    yield aten.searchsorted.Tensor, (bounds, X), {"sorter": long(0, 1, 2)}
    yield aten.isin.Tensor_Tensor, (X.long(), long()), {}
    for number in (2, 2.5):
        yield aten.bucketize.Scalar, (number, bounds), {}
        yield aten.bucketize.Scalar, (number, bounds), {"out_int32": True}
        yield aten.searchsorted.Scalar, (bounds, number), {}
        yield aten.searchsorted.Scalar, (bounds, number), {"out_int32": True, "right": True}
        yield aten.isin.Scalar_Tensor, (number, bounds), {}
        yield aten.isin.Scalar_Tensor, (number, X), {"assume_unique": True}


def _count() -> Iterator[Call]:
    counts = long(1, 0, 2)
    yield aten.bincount.default, (counts,), {}
    yield aten.bincount.default, (counts, torch.rand(3)), {"minlength": 9}
    for x in LAYOUTS:
        yield aten.histc.default, (x,), {}
        yield aten.histc.default, (x.double(), 7, -1, 2.5), {}
    yield aten.histc.default, (X.bfloat16(), 3), {}
    yield aten.repeat_interleave.Tensor, (counts,), {}
    yield aten.repeat_interleave.Tensor, (counts.int(),), {"output_size": 3}
    for x in (X, LAST, IMAGE.long(), EXPANDED, SCALAR, EMPTY, X > 3):
        for options in ((), (True, True), (False, False, True), (True, True, True)):
            yield aten._unique2.default, (x, *options), {}
        for options in ((), (True,), (False, True), (True, True)):
            yield aten.unique_consecutive.default, (x, *options), {}
    # FakeTensor makes the values row-major for every dimension, eager only for the first one.
    for x in (X, LAST, IMAGE.long(), EXPANDED):
        yield aten.unique_consecutive.default, (x,), {"dim": 0}
        yield aten.unique_dim.default, (x, 0), {}
        yield aten.unique_dim.default, (x, -x.dim(), True, True, True), {}
    for number in (SCALAR, torch.tensor(3), torch.tensor([[True]])):
        yield aten._local_scalar_dense.default, (number,), {}
        yield aten.item.default, (number,), {}
