# SPDX-License-Identifier: Apache-2.0
"""Linear algebra and Fourier transforms."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch

from tests.python.operator_calls import Call, whole

aten = torch.ops.aten


def batch(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Returns matrices of these sizes, which are positive definite if they are square."""
    x = torch.ones(sizes, dtype=dtype)
    return x if sizes[-1:] != sizes[-2:-1] else x + sizes[-1] * torch.eye(sizes[-1], dtype=dtype)


def square() -> Iterator[torch.Tensor]:
    yield batch(3, 3)
    yield batch(3, 3).mT
    yield batch(2, 3, 3)
    yield batch(3, 2, 3, 3).transpose(0, 1)
    yield batch(3, 3, dtype=torch.complex64)
    yield batch(2, 1, 1, dtype=torch.float64)
    yield batch(2, 0, 0)
    yield batch(0, 3, 3)
    yield batch(3, 3)[:1].expand(3, 3)


def oblong() -> Iterator[torch.Tensor]:
    yield from square()
    yield batch(4, 3)
    yield batch(3, 4)
    yield batch(4, 2, 3).mT
    yield batch(5, 2, 3, 4, dtype=torch.complex128).transpose(0, 1)
    yield batch(3, 0)


def decompositions() -> Iterator[Call]:
    for a in square():
        for function in (aten.linalg_inv_ex, aten.linalg_ldl_factor_ex, aten.linalg_cholesky_ex):
            yield function.default, (a,), {"check_errors": False}
        for function in (aten.cholesky_inverse, aten.linalg_matrix_exp, aten._linalg_slogdet):
            yield function.default, (a,), {}
        for function in (aten.linalg_eig, aten._linalg_eigh, aten._linalg_det):
            yield function.default, (a,), {}
        yield whole(aten.linalg_eigvals.default), (a,), {}
        yield aten._linalg_eigh.default, (a, "U", False), {}
        yield aten.linalg_cholesky_ex.default, (a,), {"upper": True}
        if hasattr(aten, "cholesky"):  # torch 2.14 has linalg_cholesky alone
            yield aten.cholesky.default, (a,), {}
            yield aten.cholesky.default, (a, True), {}
    for a in oblong():
        for pivot in (True, False):
            yield aten.linalg_lu_factor_ex.default, (a,), {"pivot": pivot}
            yield aten.linalg_lu.default, (a,), {"pivot": pivot}
        for full_matrices, compute_uv in itertools.product((False, True), repeat=2):
            yield aten._linalg_svd.default, (a, full_matrices, compute_uv), {}
        for mode in ("reduced", "complete", "r"):
            yield aten.linalg_qr.default, (a, mode), {}
        yield aten.geqrf.default, (a,), {}
        yield aten.linalg_pinv.atol_rtol_tensor, (a,), {}
        yield aten.linalg_pinv.atol_rtol_tensor, (a,), {"rtol": torch.tensor(0.1)}
        lu, pivots, _ = aten.linalg_lu_factor_ex(a)
        for unpack_data, unpack_pivots in itertools.product((False, True), repeat=2):
            yield aten.lu_unpack.default, (lu, pivots, unpack_data, unpack_pivots), {}
        if a.shape[-2] >= a.shape[-1]:
            tau = batch(*a.shape[:-2], a.shape[-1]).to(a.dtype)
            yield aten.linalg_householder_product.default, (a, tau), {}
            yield aten.linalg_householder_product.default, (a, tau[..., :1]), {}
            other = batch(*a.shape[:-1], 5, dtype=a.dtype)
            yield aten.ormqr.default, (a, tau, other), {}
            yield aten.ormqr.default, (a, tau, other.mT, False, True), {}
    yield aten.linalg_pinv.atol_rtol_tensor, (batch(2, 3, 3),), {"hermitian": True}
    yield aten.linalg_pinv.atol_rtol_tensor, (batch(2, 4, 3),), {"atol": batch(2), "rtol": batch(5, 1)}


def solutions() -> Iterator[Call]:
    # FakeTensor refuses linalg_lstsq: the sizes of its results are those that a run finds.
    pairs = [
        (batch(3, 3), batch(3, 4)),
        (batch(3, 3).mT, batch(4, 3).mT),
        (batch(2, 3, 3), batch(3, 4)),
        (batch(3, 3), batch(2, 3, 4)),
        (batch(2, 1, 3, 3), batch(5, 3, 2)),
        (batch(2, 3, 3), batch(2, 3, 4).transpose(0, 1).contiguous().transpose(0, 1)),
        (batch(3, 3, dtype=torch.complex64), batch(3, 4, dtype=torch.complex64)),
        (batch(2, 3, 3), batch(2, 3, 0)),
        (batch(0, 3, 3), batch(3, 4)),
    ]
    for a, b in pairs:
        lu, pivots, _ = aten.linalg_lu_factor_ex(a)
        yield aten.linalg_lu_solve.default, (lu, pivots, b), {}
        yield aten.linalg_lu_solve.default, (lu, pivots, b), {"adjoint": True}
        yield aten.linalg_lu_solve.default, (lu, pivots, b.mT), {"left": False}
        yield aten._linalg_solve_ex.default, (a, b), {}
        yield aten._linalg_solve_ex.default, (a, b.mT), {"left": False}
        yield aten.linalg_solve_triangular.default, (a, b), {"upper": True}
        yield aten.linalg_solve_triangular.default, (a, b.mT), {"upper": False, "left": False, "unitriangular": True}
        yield aten.triangular_solve.default, (b, a), {}
        yield aten.triangular_solve.default, (b, a, False, True, True), {}
        yield aten.cholesky_solve.default, (b, a), {}
        yield aten.cholesky_solve.default, (b, a, True), {}
    # Right-hand sides that are vectors.
    yield aten._linalg_solve_ex.default, (batch(3, 3), batch(3)), {}
    yield aten._linalg_solve_ex.default, (batch(2, 3, 3), batch(2, 3)), {}
    yield aten._linalg_solve_ex.default, (batch(2, 3, 3), batch(3)), {}
    yield aten._linalg_solve_ex.default, (batch(2, 2, 3, 3), batch(2, 2, 3)), {}


def crosses() -> Iterator[Call]:
    for a, b, dim in (
        ((4, 3), (4, 3), -1), ((3, 4), (3, 4), 0), ((2, 3, 4), (1, 3, 4), 1), ((1, 3), (5, 3), -1),
        ((2, 1, 3), (1, 4, 3), 2), ((0, 3), (0, 3), -1),
    ):  # fmt: skip
        yield aten.linalg_cross.default, (batch(*a), batch(*b)), {"dim": dim}
        yield aten.linalg_cross.default, (batch(*a).bfloat16(), batch(*b).bfloat16()), {"dim": dim}
    yield aten.linalg_cross.default, (batch(3, 4).t(), batch(3, 4).t()), {}
    yield aten.linalg_cross.default, (batch(3, 4).t(), batch(4, 3)), {}


def transforms() -> Iterator[Call]:
    inputs = [
        torch.rand(6), torch.rand(4, 5), torch.rand(5, 4).t(), torch.rand(2, 3, 4, 5), torch.rand(0, 4),
        torch.rand(2, 3, 4, 5).permute(2, 0, 3, 1), torch.rand(2, 4, 4, 5).to(memory_format=torch.channels_last),
        torch.rand(4, 10)[:, ::2], torch.rand(4, 1).expand(4, 6), torch.rand(4, 1, 5),
    ]  # fmt: skip
    for x in inputs:
        every = list(range(x.dim()))
        dims = [[d] for d in every] + [every, every[::-1], every[1:], every[-2:]]  # eager takes no negative dimensions
        for dim in [d for d in dims if all(x.shape[i] > 0 for i in d)]:
            spectrum = x.to(torch.complex64)
            yield aten._fft_c2c.default, (spectrum, dim, 0, True), {}
            if not dim:
                continue
            yield aten._fft_r2c.default, (x, dim, 0, True), {}
            yield aten._fft_r2c.default, (x.double(), dim, 1, False), {}
            yield aten._fft_c2r.default, (spectrum, dim, 0, 2 * x.shape[dim[-1]] - 2 or 1), {}
            yield aten._fft_c2r.default, (spectrum.to(torch.complex128), dim, 2, 2 * x.shape[dim[-1]] - 1), {}


def calls() -> Iterator[Call]:
    yield from decompositions()
    yield from solutions()
    yield from crosses()
    yield from transforms()
