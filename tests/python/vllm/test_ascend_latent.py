# SPDX-License-Identifier: Apache-2.0
"""The operator of ``_C_ascend`` before latent attention."""

from __future__ import annotations

from typing import Any

import npugraph_vllm.ascend_c  # noqa: F401
import pytest
import torch

from tests.python.device.attention.test_npu_mla import put, quantise, rms_norm, rope
from tests.python.device.npu_operators import check, integers, normal

ops = torch.ops._C_ascend

TOKENS, INPUT, LATENT, TURNED, QUERY, HEADS, SIZE = 3, 32, 16, 8, 48, 4, 4
WIDTHS = LATENT + TURNED + QUERY, HEADS * (SIZE + TURNED)
SCALES = [(torch.tensor([0.031]), torch.tensor([3], dtype=torch.int8)), (torch.tensor([0.043]), torch.tensor([-7]))]
DESCALES = [normal(width, seed=width).abs() / 5000 for width in WIDTHS]
GAMMA1, BETA1, GAMMA2 = normal(QUERY, seed=7), normal(QUERY, seed=8), normal(LATENT, seed=9)
ANGLES = normal(TOKENS, TURNED, seed=11), normal(TOKENS, TURNED, seed=12)
TO_LATENT = normal(HEADS, SIZE, LATENT, seed=10)
SLOTS = torch.tensor([3, -1, 8], dtype=torch.int32)


def weights_of(dtype: torch.dtype) -> list[torch.Tensor]:
    sizes = (WIDTHS[0], INPUT), (WIDTHS[1], QUERY)
    if dtype == torch.int8:
        return [integers(-99, 99, *size, dtype=dtype, seed=seed) for seed, size in enumerate(sizes)]
    return [normal(*size, seed=seed) / 5 for seed, size in enumerate(sizes)]


def biases_of(dtype: torch.dtype) -> list[torch.Tensor | None]:
    return [integers(-9, 9, width, dtype=torch.int32) if dtype == torch.int8 else None for width in WIDTHS]


def in_pieces(weight: torch.Tensor) -> torch.Tensor:
    """A weight of int8 as vllm-ascend stores it: pieces of 32 columns, with padding to that and to 16 rows."""
    rows, columns = weight.shape
    padded = torch.nn.functional.pad(weight, (0, -columns % 32, 0, -rows % 16))
    return padded.unflatten(1, (-1, 32)).transpose(0, 1).contiguous()[None]


def through(x: torch.Tensor, layer: int, dtype: torch.dtype) -> torch.Tensor:
    weight = weights_of(dtype)[layer].double()
    if dtype != torch.int8:
        return x @ weight.T
    scale, offset = SCALES[layer]
    return (quantise(x / scale.double() + offset) @ weight.T + biases_of(dtype)[layer]) * DESCALES[layer].double()


def preprocess(hidden: torch.Tensor, dtype: torch.dtype, outputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    cos, sin = (table.double() for table in ANGLES)
    latent, key, query = through(hidden, 0, dtype).split([LATENT, TURNED, QUERY], 1)
    put(outputs["kv_cache_out0"], SLOTS.tolist(), rms_norm(latent, GAMMA2.double(), 1e-6))
    put(outputs["kv_cache_out1"], SLOTS.tolist(), rope(key, cos, sin))
    inner = rms_norm(query, GAMMA1.double(), 1e-6) + BETA1
    nope, turning = through(inner, 1, dtype).view(TOKENS, HEADS, SIZE + TURNED).split([SIZE, TURNED], 2)
    outputs["q_out0"].copy_(torch.einsum("thi,hij->thj", nope, TO_LATENT.double()))
    outputs["q_out1"].copy_(rope(turning, cos[:, None], sin[:, None]))
    outputs["inner_out"].copy_(inner)
    return tuple(outputs.values())


@pytest.mark.parametrize("dtype", [torch.int8, torch.float32])
def test_mla_preprocess(dtype: torch.dtype) -> None:
    outputs = {
        "q_out0": torch.zeros(TOKENS, HEADS, LATENT),
        "kv_cache_out0": normal(3, 4, 1, LATENT, seed=3),
        "q_out1": torch.zeros(TOKENS, HEADS, TURNED),
        "kv_cache_out1": normal(3, 4, 1, TURNED, seed=4),
        "inner_out": torch.zeros(TOKENS, QUERY),
    }
    options = {"cache_mode": "krope_ctkv", "quant_mode": "per_tensor_quant_asymm", "enable_inner_out": True}
    options |= {"ctkv_scale": None, "q_nope_scale": None}
    for layer, bias in enumerate(biases_of(dtype)):
        scale, offset = SCALES[layer]
        options |= {f"quant_scale{layer}": scale, f"quant_offset{layer}": offset, f"bias{layer}": bias}

    def call(*args: Any, **kwargs: Any) -> Any:
        *given, slots = args
        return ops.mla_preprocess(*given, kwargs["kv_cache_out0"], kwargs["kv_cache_out1"], slots, **kwargs)

    def reference(hidden: torch.Tensor, *_: Any, **kwargs: Any) -> Any:
        return preprocess(hidden, dtype, {name: kwargs[name] for name in outputs})

    down, up = (in_pieces(x) if dtype == torch.int8 else x for x in weights_of(dtype))
    args = normal(TOKENS, INPUT, seed=2), down, DESCALES[0], GAMMA1, BETA1, up, DESCALES[1], GAMMA2
    check(call, (*args, *ANGLES, TO_LATENT, SLOTS), reference, dynamic=False, **options, **outputs)


def test_other_layouts_of_caches_are_refused() -> None:
    x = torch.empty(0)
    with pytest.raises(NotImplementedError, match=r"cache_mode is 'nzcache'.* 'krope_ctkv'"):
        ops.mla_preprocess(*[x] * 14, *[None] * 8, "nzcache", None, False, *[x] * 5)
