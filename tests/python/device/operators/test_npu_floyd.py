# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/attention/floyd_attention.cc."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import FLOATING, check, check_close, check_gradient, check_refused, normal

SCALE = 0.4
MINUS_INFINITY = float("-inf")


def floyd(query, key_ij, value_ij, key_jk, value_jk, *, atten_mask=None, scale_value=1.0):
    """Computes the attention of each pair of i and k to all j between them."""
    rows, columns, ways = query.shape[2], query.shape[3], key_ij.shape[3]
    results, maxima, sums = [], [], []
    for i in range(rows):
        for k in range(columns):
            keys = torch.stack([key_ij[:, :, i, j] + key_jk[:, :, j, k] for j in range(ways)], 2)
            values = torch.stack([value_ij[:, :, i, j] + value_jk[:, :, j, k] for j in range(ways)], 2)
            scores = torch.einsum("bhd,bhjd->bhj", query[:, :, i, k], keys) * scale_value
            if atten_mask is not None:
                scores = scores.masked_fill(atten_mask[:, :, i, 0].bool(), MINUS_INFINITY)
            top = scores.amax(-1, keepdim=True).detach()
            exponentials = (scores - top.clamp_min(-1e30)).exp()
            total = exponentials.sum(-1, keepdim=True)
            weights = exponentials / total.clamp_min(1e-300)
            results.append(torch.einsum("bhj,bhjd->bhd", weights, values))
            maxima.append(top.expand(-1, -1, 8))
            sums.append(total.detach().expand(-1, -1, 8))
    return tuple(torch.stack(x, 2).unflatten(2, (rows, columns)) for x in (results, maxima, sums))


def arguments(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    ij, jk = (1, 2, 3, 5, 4), (1, 2, 5, 4, 4)
    shapes = [(1, 2, 3, 4, 4), ij, ij, jk, jk]
    return tuple(normal(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(shapes))


def mask() -> torch.Tensor:
    """Returns a mask that drops a few elements, and all of one row."""
    out = normal(1, 1, 3, 1, 5, seed=9) > 0.5
    out[0, 0, 2] = True
    return out


@pytest.mark.parametrize("dtype", FLOATING)
def test_floyd_attention(dtype: torch.dtype) -> None:
    compiled = dtype == torch.float32
    check(
        torch_npu.npu_fused_floyd_attention,
        arguments(dtype),
        floyd,
        atten_mask=mask(),
        scale_value=SCALE,
        compiled=compiled,
        dynamic=compiled,
    )


def test_floyd_attention_without_a_mask() -> None:
    check(torch_npu.npu_fused_floyd_attention, arguments(), floyd, compiled=False, dynamic=False)
    check_gradient(torch_npu.npu_fused_floyd_attention, arguments(), floyd, scale_value=SCALE)


def test_gradients_of_floyd_attention() -> None:
    args, given = arguments(), normal(1, 2, 3, 4, 4, seed=7)
    for atten_mask in (None, mask()):
        saved = torch_npu.npu_fused_floyd_attention(*args, atten_mask=atten_mask, scale_value=SCALE)

        def gradients(grad, *args, **kwargs):
            leaves = [x.detach().requires_grad_() for x in args[:5]]
            return torch.autograd.grad(floyd(*leaves, **kwargs)[0], leaves, grad)

        backward = torch_npu.npu_fused_floyd_attention_backward
        once = atten_mask is None
        how = {"compiled": once, "dynamic": once}
        check(backward, (given, *args, *saved), gradients, atten_mask=atten_mask, scale_value=SCALE, **how)


def test_a_row_that_sees_nothing() -> None:
    result, top, total = torch_npu.npu_fused_floyd_attention(*arguments(), atten_mask=torch.ones(1, 1, 3, 1, 5).bool())
    check_close((result, total), (torch.zeros_like(result), torch.zeros_like(total)))
    assert top.eq(MINUS_INFINITY).all()


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    query, key_ij, value_ij, key_jk, value_jk = arguments()
    name = "npu_fused_floyd_attention"
    check_refused(name, "query_ik has 4 dimensions, allowed are 5 to 5", query[0], key_ij, value_ij, key_jk, value_jk)
    check_refused(name, r"value_ij has shape \[1, 2, 5, 4, 4\]", query, key_ij, value_jk, key_jk, value_jk)
    message = r"query_ik, key_ij and key_jk have shapes .* allowed are \(.., I, K, size\)"
    check_refused(name, message, query, key_jk, value_jk, key_ij, value_ij)
