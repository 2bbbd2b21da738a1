# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation in training, and its gradients -> elementwise operators and sums, whose code is generated and
fused with its neighbours.

With means over all dimensions but that of the channels, ``count`` elements each:

    n = (x - mean) * rstd, rstd = 1 / sqrt(mean((x - mean)^2) + eps)    out = n * weight + bias
    running_mean += momentum * (mean - running_mean), and so the variance, times count / (count - 1)
    grad_x = rstd * weight * (grad - mean(grad) - n * mean(grad * n))
    grad_weight = sum(grad * n)    grad_bias = sum(grad)

Everything is computed in f32, or in f64 if ``x`` is f64.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import fx

from npugraph.fx.decompose.parts import Parts
from npugraph.fx.schema import arguments_by_name

STEP = torch.ops.aten._native_batch_norm_legit_functional.default
BACKWARD = torch.ops.aten.native_batch_norm_backward.default


def parts_of_step(node: fx.Node) -> Parts | None:
    """Returns ``batch_norm_step`` for a node that normalises by the statistics of its batch."""
    saved = node.meta["val"][1].dtype
    return functools.partial(batch_norm_step, saved=saved) if _trains(node, "training") else None


def parts_of_gradients(node: fx.Node) -> Parts | None:
    """Returns ``batch_norm_gradients`` for gradients of such a node."""
    return batch_norm_gradients if _trains(node, "train") else None


def _trains(node: fx.Node, flag: str) -> bool:
    """Whether the flag is set. ATen has rules of its own for channels of one element."""
    given = arguments_by_name(node.target, node.args, node.kwargs)
    count = _count(given["input"].meta["val"])
    return given[flag] is True and not (isinstance(count, int) and count <= 1)


def _count(x: torch.Tensor) -> int:
    return x.numel() // x.shape[1] if x.dim() > 1 and x.shape[1] != 0 else 0


def _rows(x: torch.Tensor) -> list[int]:
    return [d for d in range(x.dim()) if d != 1]


def _sums_type(x: torch.Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _spread(values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Returns values of the channels of ``x`` in its computing type, shaped to meet ``x``."""
    return values.to(_sums_type(x)).view(-1, *[1] * (x.dim() - 2))


def batch_norm_step(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    training: bool,
    momentum: float,
    eps: float,
    *,
    saved: torch.dtype,
) -> tuple[torch.Tensor, ...]:
    """Returns the result [n, channels, ..], the mean and the rstd of the batch as ``saved``, and the new running mean
    and variance, [channels] each. Takes the arguments of ``STEP``."""
    wide, count = x.to(_sums_type(x)), _count(x)
    mean = wide.mean(_rows(x))
    centred = wide - _spread(mean, x)
    var = centred.square().mean(_rows(x))
    rstd = torch.rsqrt(var + eps)
    out = centred * _spread(rstd, x)
    if weight is not None:
        out = out * _spread(weight, x)
    if bias is not None:
        out = out + _spread(bias, x)

    def moved(running: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return running * (1 - momentum) + value.to(running.dtype) * momentum

    statistics = moved(running_mean, mean), moved(running_var, var * (count / (count - 1)))
    return out.to(x.dtype), mean.to(saved), rstd.to(saved), *statistics


def batch_norm_gradients(
    grad: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    mean: torch.Tensor,
    rstd: torch.Tensor,
    train: bool,
    eps: float,
    wanted: Sequence[bool],
) -> tuple[torch.Tensor | None, ...]:
    """Returns the gradients of ``x`` [n, channels, ..], the weight and the bias [channels], those that are ``wanted``.
    Takes the arguments of ``BACKWARD``."""
    grads, count = grad.to(_sums_type(x)), _count(x)
    normal = (x.to(_sums_type(x)) - _spread(mean, x)) * _spread(rstd, x)
    of_weight, of_bias = (grads * normal).sum(_rows(x)), grads.sum(_rows(x))
    inner = grads - _spread(of_bias / count, x) - normal * _spread(of_weight / count, x)
    scale = _spread(rstd, x) if weight is None else _spread(rstd, x) * _spread(weight, x)
    like = x if weight is None else weight
    return (
        (scale * inner).to(x.dtype) if wanted[0] else None,
        of_weight.to(like.dtype) if wanted[1] else None,
        of_bias.to(like.dtype) if wanted[2] else None,
    )
