# SPDX-License-Identifier: Apache-2.0
"""argmax and argmin of tensors of npu are those of cpu: the first of equal extremes, or the first NaN."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.python.device.npu_operators import integers, normal

CHOOSE = [torch.argmax, torch.argmin]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("choose", CHOOSE)
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64, torch.int32])
@pytest.mark.parametrize("size", [(5000,), (1, 49152), (3, 4097), (2, 3, 1000), (70, 100), (0, 8), (4, 5)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_extremes_of_rows_are_those_of_cpu(
    choose: object, dtype: torch.dtype, size: tuple[int, ...], keepdim: bool
) -> None:
    x = integers(-1000, 1000, *size, dtype=torch.int32).to(dtype)  # long rows hold each extreme several times
    for dim in (-1, len(size) - 1):
        got = choose(x.npu(), dim=dim, keepdim=keepdim)
        assert got.device.type == "npu"
        assert torch.equal(got.cpu(), choose(x, dim=dim, keepdim=keepdim))


@pytest.mark.parametrize("choose", CHOOSE)
def test_other_dimensions_and_views(choose: object) -> None:
    x = normal(80, 128, seed=3)
    for of in (lambda t: t, lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[1:]):
        view = of(x.npu())
        assert torch.equal(choose(view).cpu(), choose(of(x)))
        for dim in (0, 1):
            assert torch.equal(choose(view, dim=dim).cpu(), choose(of(x), dim=dim))


@pytest.mark.parametrize("choose", CHOOSE)
@given(places=st.lists(st.tuples(st.integers(0, 8191), st.sampled_from(["nan", "inf", "-inf", "0.0", "-0.0"]))))
def test_special_values(choose: object, places: list[tuple[int, str]]) -> None:
    for dtype in DTYPES:
        x = torch.zeros(8192, dtype=dtype)
        for place, value in places:
            x[place] = float(value)
        assert torch.equal(choose(x.view(2, -1).npu(), dim=-1).cpu(), choose(x.view(2, -1), dim=-1))


def test_in_a_captured_graph() -> None:
    logits = normal(4, 4096, seed=1).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        places = logits.argmax(-1)
    for seed in (2, 3):
        other = normal(4, 4096, seed=seed)
        logits.copy_(other)
        graph.replay()
        assert torch.equal(places.cpu(), other.argmax(-1))
