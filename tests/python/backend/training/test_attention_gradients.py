# SPDX-License-Identifier: Apache-2.0
"""Gradients of attention: as accurate as eager's, generated where the scores fit into a cache."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from npugraph.fx.decompose import attention_gradients
from tests.python.backend.checks import assert_same, compile_ex
from tests.python.backend.training.gradient_errors import errors, gradients, runs_operator

BACKWARD = "_scaled_dot_product_flash_attention_for_cpu_backward"


def operands(queries: int, keys: int, *, transposed: bool = True) -> list[torch.Tensor]:
    made = [torch.randn(2, places, 4, 16).transpose(1, 2) for places in (queries, keys, keys)]
    return made if transposed else [each.contiguous() for each in made]


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize(("is_causal", "masked", "keys"), [(False, False, 40), (True, False, 57), (False, True, 33)])
def test_as_accurate_as_eager(dtype, transposed, is_causal, masked, keys) -> None:
    given = operands(40, keys, transposed=transposed)
    mask = torch.randn(2, 1, 40, keys) if masked else None

    def attend(q, k, v):
        added = None if mask is None else mask.to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, added, is_causal=is_causal, scale=0.3)

    own, eager = gradients(compile_ex(attend), given, dtype), gradients(attend, given, dtype)
    exact = gradients(attend, given, torch.float64)
    assert all(a <= 2 * b + 1e-6 for a, b in zip(errors(own, exact), errors(eager, exact), strict=True))
    assert [each.stride() for each in own] == [each.stride() for each in eager]
    assert not runs_operator(BACKWARD)


def test_queries_that_see_no_key() -> None:
    given = operands(20, 30)
    mask = torch.zeros(20, 30)
    mask[3] = -math.inf

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, mask)

    assert_same(
        gradients(compile_ex(attend), given, torch.float32), gradients(attend, given, torch.float32), exact=False
    )


@pytest.mark.parametrize("dynamic", [None, True])
def test_many_scores_and_changing_sizes_stay_with_torch(dynamic, monkeypatch) -> None:
    if dynamic is None:
        monkeypatch.setattr(attention_gradients, "MOST_SCORES", 2 * 4 * 40 * 40 - 1)
    given = operands(40, 40)
    own = gradients(compile_ex(F.scaled_dot_product_attention, dynamic=dynamic), given, torch.float32)
    assert_same(own, gradients(F.scaled_dot_product_attention, given, torch.float32), exact=False)
    assert runs_operator(BACKWARD)
