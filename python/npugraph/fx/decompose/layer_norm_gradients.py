# SPDX-License-Identifier: Apache-2.0
"""Gradients of layer normalisation -> elementwise operators and sums, whose code is generated and fused.

With n = (x - mean) * rstd and h = grad * weight, whose means are over the normalised elements:

    grad_x = rstd * (h - mean(h) - n * mean(h * n))    grad_weight = sum(grad * n)    grad_bias = sum(grad)

Everything is computed in f32, or in f64 if the operands are f64, as in ATen.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

from npugraph.fx.decompose.parts import Parts

OPERATOR = torch.ops.aten.native_layer_norm_backward.default


def parts_of(_: fx.Node) -> Parts:
    return layer_norm_gradients


def layer_norm_gradients(
    grad: torch.Tensor,
    x: torch.Tensor,
    shape: Sequence[int],
    mean: torch.Tensor,
    rstd: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    wanted: Sequence[bool],
) -> tuple[torch.Tensor | None, ...]:
    """Returns the gradients of ``x`` [.., *shape], ``weight`` and ``bias`` [*shape], those that are ``wanted``. Takes
    the arguments of ``OPERATOR``; ``mean`` and ``rstd`` are [.., 1, ..]."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    grads = grad.to(dtype)
    normal = (x.to(dtype) - mean.to(dtype)) * rstd.to(dtype)
    rows = list(range(x.dim() - len(shape)))
    elements = list(range(len(rows), x.dim()))

    def of_rows(values: torch.Tensor, like: torch.Tensor | None) -> torch.Tensor:
        return (values.sum(rows) if rows else values).to(like.dtype if like is not None else x.dtype)

    def of_x() -> torch.Tensor:
        inner = grads if weight is None else grads * weight.to(dtype)
        spread = inner.mean(elements, keepdim=True) + normal * (inner * normal).mean(elements, keepdim=True)
        return (rstd.to(dtype) * (inner - spread)).to(x.dtype)

    return (
        of_x() if wanted[0] else None,
        of_rows(grads * normal, weight) if wanted[1] else None,
        of_rows(grads, bias) if wanted[2] else None,
    )
