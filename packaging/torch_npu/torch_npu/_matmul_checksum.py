# SPDX-License-Identifier: Apache-2.0
"""Checks of matrix products."""

import torch

__all__ = ["matmul_checksum"]


def matmul_checksum(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """Returns whether ``c`` cannot be ``a @ b``, as a tensor of one bool: whether the sums of its rows differ from
    those that follow from the factors by more than the rounding of its type (Huang and Abraham, Algorithm-Based Fault
    Tolerance for Matrix Operations, 1984)."""
    exact_a, exact_b, exact_c = (one.detach().to(torch.float64) for one in (a, b, c))
    expected = exact_a @ exact_b.sum(-1, keepdim=True)
    # Each element is off by at most its own rounding and the rounding of the float32 sums that it is made of.
    depth = a.shape[-1]
    unit = torch.finfo(c.dtype).eps + depth * torch.finfo(torch.float32).eps
    allowed = unit * (exact_a.abs() @ exact_b.abs()).sum(-1, keepdim=True)
    return ((exact_c.sum(-1, keepdim=True) - expected).abs() > allowed).any()
