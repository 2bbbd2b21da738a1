# SPDX-License-Identifier: Apache-2.0
"""Gradients of functions of tensors, and how far they are from exact ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from tests.python.backend.checks import compiled_artifacts


def gradients(
    fn: Callable[..., torch.Tensor], given: Sequence[torch.Tensor | None], dtype: torch.dtype
) -> list[torch.Tensor]:
    """Returns the gradients of a weighted sum of ``fn(*given)``, computed in ``dtype``, for all tensors given."""
    own = [None if each is None else each.detach().to(dtype).requires_grad_() for each in given]
    out = fn(*own)
    (out.double() * torch.linspace(-1, 1, out.numel()).view(out.shape)).sum().backward()
    return [each.grad for each in own if each is not None]


def errors(found: Sequence[torch.Tensor], exact: Sequence[torch.Tensor]) -> list[float]:
    """Returns the largest difference of each gradient, over its largest element."""
    return [((a.double() - b).abs().max() / b.abs().max()).item() for a, b in zip(found, exact, strict=True)]


def runs_operator(name: str) -> bool:
    """Whether a task of a living artifact is the operator of torch whose name begins with ``name``."""
    return any(task.name.startswith(f"aten.{name}") for artifact in compiled_artifacts() for task in artifact.tasks)
