# SPDX-License-Identifier: Apache-2.0
"""Measures products of odd sizes in GE mode with the plans that tuning keeps, beside those of the cost model. Both
sides are the same graph; they take turns. Where tuning keeps the plan of the cost model, both run the same plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx

from benchmarks.harness import Request, Result, Side, measure
from npugraph import _C
from npugraph.ge import tuning
from npugraph.ge.backend.npu_backend import get_npu_backend
from npugraph.ge.config import CompilerConfig

NAME = "tuned_products"
SAMPLES = 20  # rounds of both sides, at least
# Rows, columns, steps of a sum, and whether weights are [n, k].
PRODUCTS = ((37, 1001, 259, False), (61, 517, 1100, False), (37, 259, 1001, True), (7, 3001, 777, False))


def run(request: Request) -> Iterator[Result]:
    for rows, columns, steps, is_nk in PRODUCTS[:1] if request.wants_few else PRODUCTS:
        case = f"{rows}x{columns}x{steps}{' nk' if is_nk else ''}"
        if request.wants(NAME, case):
            yield compare(case, rows, columns, steps, is_nk=is_nk, samples=max(request.samples, SAMPLES))


def compare(case: str, rows: int, columns: int, steps: int, *, is_nk: bool, samples: int) -> Result:
    random = torch.Generator().manual_seed(0)
    x = torch.randn(rows, steps, generator=random)
    w = torch.randn(*((columns, steps) if is_nk else (steps, columns)), generator=random)

    def make() -> Callable[[], Any]:
        return compiled(lambda x, w: (torch.relu(x @ (w.t() if is_nk else w)),), x, w)

    ((key, _, _),) = noted(make)
    _C.ge.choose_product(key, None)  # whatever the repository of this machine holds
    ((_, blocks, _),) = noted(make)
    product = tuning.tune_product(key, blocks, make)
    usual = make()
    _C.ge.choose_product(key, product.chosen)
    tuned = make()
    _C.ge.choose_product(key, None)
    result = measure(NAME, case, [Side("cost model", usual), Side("tuned", tuned)], samples)
    result.baseline = "cost model"
    result.notes = {"cost model": product.cost_model, "tuned": product.chosen}
    return result


def noted(make: Callable[[], Any]) -> list[tuple[str, list[str], bool]]:
    """The products that are planned by a call of ``make``, with the blocks that they may have."""
    _C.ge.note_products()
    make()
    return _C.ge.noted_products()


@torch.no_grad()
def compiled(product: Callable[..., Any], x: torch.Tensor, w: torch.Tensor) -> Callable[[], Any]:
    """The product of these tensors as a graph of GE that has run once, with a plan that it then keeps."""
    run = get_npu_backend(CompilerConfig())(fx.symbolic_trace(product), [x, w])
    run(x, w)
    return torch.no_grad()(lambda: run(x, w))
