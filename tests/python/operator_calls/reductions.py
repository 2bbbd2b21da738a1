# SPDX-License-Identifier: Apache-2.0
"""Reductions, scans, sorting, norms, losses and distances."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from tests.python.operator_calls import EMPTY, EXPANDED, HOLES, SCALAR, Call

aten = torch.ops.aten

X = torch.rand(2, 3, 4)
LAST = X.permute(1, 2, 0)
IMAGE = torch.rand(2, 6, 4, 5).contiguous(memory_format=torch.channels_last)
LAYOUTS = (X, LAST, IMAGE, EXPANDED, HOLES)
FLOATS = (*LAYOUTS, SCALAR, EMPTY, X.bfloat16(), X.double())
INTEGERS = (X.long(), LAST.to(torch.uint8), X > 0.5)
ANY = (*FLOATS, *INTEGERS)


def calls() -> Iterator[Call]:
    yield from _sums()
    yield from _extremes()
    yield from _norms()
    yield from _counts()
    yield from _scans()
    yield from _sorts()
    yield from _softmaxes()
    yield from _normalisations()
    yield from _batch_norms()
    yield from _losses()
    yield from _distances()


def _sums() -> Iterator[Call]:
    for x in (*ANY, X.cfloat()):
        yield aten.sum.default, (x,), {}
        yield aten.sum.default, (x,), {"dtype": torch.float64}
        yield aten.prod.default, (x,), {}
        yield aten.prod.default, (x,), {"dtype": torch.float64}
        for dim in (None, [], [0], [-1]):
            for keepdim in (False, True):
                yield aten.sum.dim_IntList, (x, dim, keepdim), {}
                if x.dtype.is_floating_point or x.is_complex():
                    yield aten.mean.dim, (x, dim, keepdim), {}
                # For an empty list of dimensions, FakeTensor reduces nothing, where eager reduces over all.
                if dim != [] and not x.is_complex():
                    yield aten.nansum.default, (x, dim, keepdim), {}
        yield aten.sum.dim_IntList, (x, [0]), {"dtype": torch.int32}
        yield aten.mean.dim, (x, [0]), {"dtype": torch.float64}
        yield aten.mean.default, (x,), {"dtype": torch.float16}
        yield aten.prod.dim_int, (x, -1), {}
        yield aten.prod.dim_int, (x, 0, True), {"dtype": torch.float64}
    for x in FLOATS:
        yield aten.mean.default, (x,), {}
        yield aten.nansum.default, (x,), {"dtype": torch.float64}
    for x in (X, LAST, IMAGE, X.bfloat16(), X.double(), X.cfloat()):
        for name in ("var", "std", "var_mean", "std_mean"):
            function = getattr(aten, name).correction
            yield function, (x,), {}
            yield function, (x, [0]), {"correction": 0}
            yield function, (x, [0, -1]), {"correction": 1.5, "keepdim": True}
        yield aten.logsumexp.default, (x, [1]), {}
        yield aten.logsumexp.default, (x, [0, -1], True), {}
    yield aten.logsumexp.default, (X.long(), [1]), {}
    yield aten.logsumexp.default, (SCALAR, [0]), {}


def _extremes() -> Iterator[Call]:
    for x in (*LAYOUTS, SCALAR, X.bfloat16(), X.long(), X > 0.5):
        for function in (aten.amax.default, aten.amin.default):
            yield function, (x,), {}
            yield function, (x, [0]), {}
            yield function, (x, [-1], True), {}
        for name in ("max", "min"):
            yield getattr(aten, name).default, (x,), {}
            yield getattr(aten, name).dim, (x, 0), {}
            yield getattr(aten, name).dim, (x, -1, True), {}
            yield getattr(aten, f"arg{name}").default, (x,), {}
            yield getattr(aten, f"arg{name}").default, (x, 0), {}
            yield getattr(aten, f"arg{name}").default, (x, -1, True), {}
            yield getattr(aten, f"arg{name}").default, (x, None, True), {}
        yield aten.aminmax.default, (x,), {}
        yield aten.aminmax.default, (x,), {"dim": 0}
        yield aten.aminmax.default, (x,), {"dim": -1, "keepdim": True}
        yield aten.aminmax.default, (x,), {"keepdim": True}
        for function in (aten.median, aten.nanmedian):
            yield function.default, (x,), {}
            yield function.dim, (x, 0), {}
            yield function.dim, (x, -1, True), {}
        yield aten.mode.default, (x,), {}
        yield aten.mode.default, (x, 0), {}
        yield aten.mode.default, (x, 0, True), {}
        yield aten.kthvalue.default, (x, 1), {}
        yield aten.kthvalue.default, (x, 1, 0), {}
        yield aten.kthvalue.default, (x, 1, 0, True), {}
        for function in (aten.any, aten.all):
            for y in (x, x.to(torch.uint8)):
                yield function.default, (y,), {}
                yield function.dim, (y, 0), {}
                yield function.dim, (y, -1, True), {}
                yield function.dims, (y,), {}
                yield function.dims, (y, [0], True), {}
                # FakeTensor keeps the strides of other layouts where it reduces nothing.
                if y.is_contiguous():
                    yield function.dims, (y, []), {}
                    yield function.dims, (y, [], True), {}
                yield function.dims, (y, None, True), {}


def _norms() -> Iterator[Call]:
    for x in (*FLOATS, X.cfloat(), LAST.cdouble()):
        for p in (0, 1, 2, 2.5, float("inf")):
            yield aten.linalg_vector_norm.default, (x, p), {}
            yield aten.linalg_vector_norm.default, (x, p, [0]), {}
            yield aten.linalg_vector_norm.default, (x, p, [-1], True), {}
            yield aten.norm.Scalar, (x, p), {}
            yield aten.norm.ScalarOpt_dim, (x, p, [0]), {}
            yield aten.norm.ScalarOpt_dim, (x, p, [-1], True), {}
        yield aten.linalg_vector_norm.default, (x, 2, None, True), {}
        yield aten.linalg_vector_norm.default, (x, 2, []), {}
        yield aten.norm.Scalar, (x,), {}
        yield aten.norm.ScalarOpt_dim, (x, None, []), {}
        yield aten.norm.ScalarOpt_dim, (x, None, [], True), {}
        wide = torch.complex128 if x.is_complex() else torch.float64
        yield aten.linalg_vector_norm.default, (x,), {"dtype": wide}
        if not x.is_complex():
            yield aten.norm.ScalarOpt_dim_dtype, (x, None, [0], True), {"dtype": wide}
            yield aten.norm.ScalarOpt_dim_dtype, (x, 1.5, [-1], False), {"dtype": wide}


def _counts() -> Iterator[Call]:
    for x in (*ANY, X.cfloat()):
        yield aten.count_nonzero.default, (x,), {}
        yield aten.count_nonzero.default, (x, 0), {}
        yield aten.count_nonzero.dim_IntList, (x, [-1]), {}
        yield aten.count_nonzero.dim_IntList, (x, []), {}
    yield aten.count_nonzero.dim_IntList, (IMAGE, [0, -1]), {}
    for x in (X[0], X[0].t(), X[0].long(), X[0] > 0.5, X[0].half(), X[0].to(torch.uint8), EMPTY):
        yield aten.trace.default, (x,), {}
    for p in (1, 2, 0.5):
        yield aten.dist.default, (X, X.transpose(0, 1).contiguous().transpose(0, 1), p), {}
        yield aten.dist.default, (X, torch.rand(4), p), {}
        yield aten.dist.default, (X.double(), X.double()), {}
    yield aten.dist.default, (X.bfloat16(), X.bfloat16()), {}
    yield aten.dist.default, (X.cfloat(), X.cfloat()), {}


def _scans() -> Iterator[Call]:
    for x in ANY:
        for scan in (aten.cumsum, aten.cumprod):
            yield scan.default, (x, 0), {}
            yield scan.default, (x, -1), {"dtype": x.dtype}
        if x is not EXPANDED:
            for scan in (aten.cumsum_, aten.cumprod_):
                yield scan.default, (x, 0), {}
                yield scan.default, (x, -1), {"dtype": x.dtype}
        yield aten.cumsum.default, (x, 0), {"dtype": torch.float64}
        yield aten.cumprod.default, (x, 0), {"dtype": torch.int32}
        yield aten.cummax.default, (x, 0), {}
        yield aten.cummin.default, (x, -1), {}
    for x in FLOATS:
        yield aten.logcumsumexp.default, (x, 0), {}
        yield aten.logcumsumexp.default, (x, -1), {}
    yield aten.cumsum.default, (LAST.cfloat(), 1), {}


def _sorts() -> Iterator[Call]:
    for x in ANY:
        yield aten.sort.default, (x,), {}
        yield aten.sort.default, (x, 0, True), {}
        yield aten.sort.stable, (x,), {"stable": True}
        yield aten.sort.stable, (x,), {"stable": None, "dim": 0, "descending": True}
        yield aten.topk.default, (x, 1), {}
        yield aten.topk.default, (x, 1, -1, False, False), {}
    for x in LAYOUTS:
        yield aten.topk.default, (x, 2, 0), {}
    yield aten.topk.default, (X, 0, 1), {}


def _softmaxes() -> Iterator[Call]:
    for x in (*FLOATS, X.half()):
        for function in (aten._softmax.default, aten._log_softmax.default):
            yield function, (x, 0, False), {}
            yield function, (x, -1, False), {}
        yield aten._softmax.default, (x.half(), 0, True), {}
        yield aten._safe_softmax.default, (x, -1), {}
        yield aten._safe_softmax.default, (x, 0, torch.float64), {}
        other = torch.ones_like(x).transpose(0, -1).contiguous().transpose(0, -1) if x.dim() else x
        for dim in (0, -1):
            yield aten._softmax_backward_data.default, (x, other, dim, x.dtype), {}
            yield aten._softmax_backward_data.default, (other, x, dim, x.dtype), {}
            # FakeTensor keeps the strides of other layouts.
            args = (x.contiguous(), other.contiguous(), dim, x.dtype)
            yield aten._log_softmax_backward_data.default, args, {}
    yield aten._softmax_backward_data.default, (X, X, 0, torch.float16), {}
    yield aten._safe_softmax.default, (X.long(), 0, torch.float32), {}


def _normalisations() -> Iterator[Call]:
    # FakeTensor gives statistics of a half type where eager follows parameters in f32, and gradients with the strides
    # of what they are computed from.
    for x in (X, LAST, IMAGE, HOLES, X.double(), X.bfloat16(), LAST.bfloat16(), torch.rand(0, 3, 4)):
        for shape in ([x.shape[-1]], list(x.shape[1:])):
            weight, bias = torch.ones(shape, dtype=x.dtype), torch.zeros(shape, dtype=x.dtype)
            yield _layer_norm, (x, len(shape), None, None), {}
            yield _layer_norm, (x, len(shape), weight, bias), {}
            y = x.contiguous()
            _, mean, rstd = _layer_norm(y, len(shape), None, None)
            for mask in ([True, True, True], [True, False, False], [False, True, True]):
                yield _layer_norm_backward, (y, len(shape), mean, rstd, weight, bias, mask), {}
            yield _layer_norm_backward, (y, len(shape), mean, rstd, weight, None, [False, True, False]), {}
            yield _layer_norm_backward, (y, len(shape), mean, rstd, None, None, [True, False, False]), {}
            for mask in ([True, True], [True, False], [False, True]):
                yield _rms_norm_backward, (y, len(shape), rstd, weight, mask), {}
            yield _rms_norm_backward, (y, len(shape), rstd, None, [True, False]), {}
    volume = torch.rand(2, 6, 3, 4, 5)
    for x in (X.reshape(2, 4, 3), IMAGE, IMAGE.contiguous(), IMAGE.bfloat16(), IMAGE.double(), volume, volume.half()):
        weight, bias = torch.ones(x.shape[1], dtype=x.dtype), torch.zeros(x.shape[1], dtype=x.dtype)
        for groups in (1, 2):
            yield _group_norm, (x, groups, None, None), {}
            yield _group_norm, (x, groups, weight, bias), {}
            _, mean, rstd = _group_norm(x, groups, None, None)
            for mask in ([True, True, True], [True, False, False], [False, True, True]):
                yield _group_norm_backward, (x, groups, mean, rstd, weight, mask), {}
            yield _group_norm_backward, (x, groups, mean, rstd, None, [True, False, False]), {}


# These take sizes from the tensor, so that they are symbols when its sizes are.
def _layer_norm(x: Any, dims: int, weight: Any, bias: Any) -> Any:
    return aten.native_layer_norm.default(x, x.shape[-dims:], weight, bias, 1e-5)


def _layer_norm_backward(x: Any, dims: int, *rest: Any) -> Any:
    return aten.native_layer_norm_backward.default(torch.ones_like(x), x, x.shape[-dims:], *rest)


def _rms_norm_backward(x: Any, dims: int, *rest: Any) -> Any:
    return aten._fused_rms_norm_backward.default(torch.ones_like(x), x, x.shape[-dims:], *rest)


def _group_norm(x: Any, groups: int, weight: Any, bias: Any) -> Any:
    n, c, *rest = x.shape
    return aten.native_group_norm.default(x, weight, bias, n, c, math.prod(rest), groups, 1e-5)


def _group_norm_backward(x: Any, groups: int, mean: Any, rstd: Any, weight: Any, mask: list[bool]) -> Any:
    n, c, *rest = x.shape
    args = (torch.ones_like(x), x, mean, rstd, weight, n, c, math.prod(rest), groups, mask)
    return aten.native_group_norm_backward.default(*args)


def _batch_norms() -> Iterator[Call]:
    # FakeTensor keeps strides that are neither row-major nor channels last, gives statistics of a half type where eager
    # follows parameters in f32, gives copies of statistics of a half type in f32, wants weights, and gives gradients
    # that are not asked for.
    flat, images = torch.rand(4, 6), IMAGE.contiguous()
    for x in (flat, torch.rand(2, 6, 3), images, IMAGE, IMAGE.bfloat16(), IMAGE.double()):
        c = x.shape[1]
        weight, bias = torch.ones(c, dtype=x.dtype), torch.zeros(c, dtype=x.dtype)
        mean, var = torch.zeros(c, dtype=x.dtype), torch.ones(c, dtype=x.dtype)
        for training in (True, False):
            tail = (training, 0.1, 1e-5)
            for parameters in ((weight, bias), (None, None)):
                yield aten.native_batch_norm.default, (x, *parameters, mean, var, *tail), {}
                yield aten._native_batch_norm_legit.default, (x, *parameters, mean, var, *tail), {}
                if x.dtype != torch.bfloat16:
                    yield aten._native_batch_norm_legit_functional.default, (x, *parameters, mean, var, *tail), {}
        yield aten.native_batch_norm.default, (x, weight, None, None, None, True, 0.1, 1e-5), {}
        yield aten._native_batch_norm_legit.no_stats, (x, weight, bias, True, 0.1, 1e-5), {}
        yield aten._native_batch_norm_legit.no_stats, (x, None, None, True, 0.1, 1e-5), {}
        yield aten._native_batch_norm_legit_no_training.default, (x, None, None, mean, var, 0.1, 1e-5), {}
        args = (x, weight, bias, mean, var, 0.1, 1e-5)
        yield aten._native_batch_norm_legit_no_training.default, args, {}
        yield aten._batch_norm_with_update.default, args, {}
        yield aten._batch_norm_no_update.default, args, {}
        if x.dtype != torch.bfloat16:
            yield aten._batch_norm_with_update_functional.default, args, {}
        for train in (True, False):
            for mask in ([True, True, True], [True, False, False]):
                args = (torch.ones_like(x), x, weight, mean, var, mean.clone(), var.clone(), train, 1e-5, mask)
                yield aten.native_batch_norm_backward.default, args, {}
                yield aten.batch_norm_backward.default, (*args, torch.empty(0, dtype=torch.uint8)), {}


def _losses() -> Iterator[Call]:
    logits, targets = torch.rand(4, 3), torch.tensor([0, 1, 2, 0])
    pixels, labels = torch.rand(2, 3, 4, 5), torch.zeros(2, 4, 5, dtype=torch.int64)
    last = pixels.contiguous(memory_format=torch.channels_last)  # eager refuses it in the backward pass
    total = torch.tensor(4.0)
    for reduction in (0, 1, 2):
        for weight in (None, torch.ones(3)):
            for x in (logits, torch.rand(3, 4).t(), logits.double(), logits.bfloat16()):
                w = weight if weight is None else weight.to(x.dtype)
                yield aten.nll_loss_forward.default, (x, targets, w, reduction, -100), {}
                grad = torch.ones((4,) if reduction == 0 else (), dtype=x.dtype)
                args = (grad, x, targets, w, reduction, -100, total.to(x.dtype))
                yield aten.nll_loss_backward.default, args, {}
            for x in (pixels, last, pixels.double()):
                w = weight if weight is None else weight.to(x.dtype)
                yield aten.nll_loss2d_forward.default, (x, labels, w, reduction, 1), {}
                if x is last:
                    continue
                grad = torch.ones((2, 4, 5) if reduction == 0 else (), dtype=x.dtype)
                args = (grad, x, labels, w, reduction, 1, total.to(x.dtype))
                yield aten.nll_loss2d_backward.default, args, {}
            yield aten.nll_loss_forward.default, (logits[0], targets[0], weight, reduction, -100), {}
            args = (torch.ones(()), logits[0], targets[0], weight, reduction, -100, total)
            yield aten.nll_loss_backward.default, args, {}


def _distances() -> Iterator[Call]:
    for dtype in (torch.float32, torch.float64):
        a, b = torch.rand(5, 3, dtype=dtype), torch.rand(4, 3, dtype=dtype)
        for p in (0.0, 1.0, 2.0):
            yield aten._cdist_forward.default, (a, b, p, None), {}
            yield aten._cdist_forward.default, (a.expand(2, 5, 3), b.t().contiguous().t(), p, 1), {}
            yield aten._pdist_forward.default, (a, p), {}
        yield aten._cdist_forward.default, (a.expand(2, 1, 5, 3), b.expand(6, 4, 3), 2.0, 2), {}
        yield aten._pdist_forward.default, (a[:1],), {}
    for x in (X, LAST, IMAGE, HOLES, X.bfloat16()):
        for function in (aten.renorm.default, aten.renorm_.default):
            yield function, (x, 2, 0, 1.5), {}
            yield function, (x, 1, -1, 1), {}
    # FakeTensor keeps the strides of other layouts, and lengths in f16.
    for v in (X, X.double(), X.bfloat16()):
        first = torch.ones(v.shape[0], *[1] * (v.dim() - 1), dtype=v.dtype)
        final = torch.ones(*[1] * (v.dim() - 1), v.shape[-1], dtype=v.dtype)
        yield aten._weight_norm_interface.default, (v, first), {}
        yield aten._weight_norm_interface.default, (v, final, v.dim() - 1), {}
