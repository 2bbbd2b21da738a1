# SPDX-License-Identifier: Apache-2.0
"""Errors of torch that come out of an operator of npu say which operator was called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import normal, on

SLOTS = torch.tensor([1, 99], dtype=torch.int32)
CACHES = normal(2, 1, 16), normal(2, 1, 16), torch.zeros(2, 4, 1, 16), torch.zeros(2, 4, 1, 16)
QUERY, BLOCKS = normal(1, 2, 1, 16), normal(3, 4, 16)
CALLS: dict[str, Callable[..., Any]] = {
    "npu_scatter_pa_kv_cache": lambda op, on: op(*on(CACHES), on(SLOTS), cache_mode="Norm"),
    "_npu_reshape_and_cache": lambda op, on: op(*on(CACHES), on(SLOTS)),
    "_npu_paged_attention": lambda op, on: op(
        *on([normal(1, 2, 16), normal(3, 4, 1, 16), normal(3, 4, 1, 16)]),
        1,
        2,
        1.0,
        on(torch.tensor([[0, 99]], dtype=torch.int32)),
        torch.tensor([7], dtype=torch.int32),
        on(torch.zeros(1, 2, 16)),
    ),
    "npu_mrope": lambda op, on: op(on(torch.tensor([99])), *on([normal(1, 32), normal(1, 32), normal(8, 16)]), 16),
    "_npu_rotary_embedding": lambda op, on: op(
        on(torch.tensor([99])), on(normal(1, 32)), on(normal(1, 32)), 16, on(normal(8, 16)), True
    ),
    "scatter_update": lambda op, on: op(on(torch.zeros(2, 8, 16)), on(torch.tensor([99, 0])), on(normal(2, 1, 16)), -2),
    "npu_scatter_nd_update": lambda op, on: op(on(torch.zeros(4, 8)), on(torch.tensor([[99]])), on(normal(1, 8))),
    "npu_fused_infer_attention_score": lambda op, on: op(
        on(QUERY),
        on(BLOCKS),
        on(BLOCKS),
        num_heads=2,
        num_key_value_heads=1,
        input_layout="BNSD",
        block_table=on(torch.tensor([[0, 99]], dtype=torch.int32)),
        block_size=4,
        actual_seq_lengths_kv=[7],
    ),
}


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("name", CALLS)
def test_places_out_of_range(name: str, device: str, inference: bool) -> None:
    with torch.inference_mode(inference), pytest.raises((IndexError, RuntimeError)) as caught:
        CALLS[name](getattr(torch_npu, name), lambda value: on(device, value))
    text = str(caught.value)
    assert f" (in npu::{name})" in text or f" (in atb::{name})" in text or text.startswith(f"{name}: "), text


def test_kinds_of_errors_stay() -> None:
    with pytest.raises(IndexError, match=r"^index 99 is out of bounds for dimension 0 with size 4 \(in npu::npu_sc"):
        torch_npu.npu_scatter_nd_update(torch.zeros(4, 8), torch.tensor([[99]]), torch.ones(1, 8))
    with pytest.raises(RuntimeError, match=r"^npu_rms_norm: [^(]*$"):  # the message names the operator already
        torch_npu.npu_rms_norm(normal(2, 8), normal(2, 2, 7))


@pytest.mark.parametrize("wants_gradient", [False, True])
def test_devices_that_do_not_fit(wants_gradient: bool) -> None:
    gamma = torch.ones(8, requires_grad=wants_gradient)
    with pytest.raises(RuntimeError, match=r"at least two devices, npu:0 and cpu! \(.*in npu::npu_rms_norm\)$"):
        torch_npu.npu_rms_norm(normal(2, 8).npu(), gamma)
