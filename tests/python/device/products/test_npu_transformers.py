# SPDX-License-Identifier: Apache-2.0
"""transformers finds the device and imports names of torch_npu."""

from __future__ import annotations

import pytest
import torch
import torch_npu

transformers = pytest.importorskip("transformers")


def test_transformers_finds_the_device_and_its_operators() -> None:
    from transformers import AutoModelForCausalLM
    from transformers.utils import is_torch_npu_available

    assert is_torch_npu_available(check_device=True)
    assert AutoModelForCausalLM is not None
    from torch_npu import npu_fusion_attention, npu_rotary_mul  # names that modules of transformers import

    assert npu_fusion_attention is torch_npu.npu_fusion_attention and npu_rotary_mul is torch_npu.npu_rotary_mul


@pytest.mark.parametrize("causal", [False, True])
def test_its_flash_attention(causal: bool) -> None:
    from transformers.integrations.npu_flash_attention import npu_flash_attn_func

    q, k, v = (torch.randn(2, 5, 3, 8) for _ in range(3))
    got = npu_flash_attn_func(*(x.npu() for x in (q, k, v)), causal=causal)
    by_heads = (x.transpose(1, 2) for x in (q, k, v))
    want = torch.nn.functional.scaled_dot_product_attention(*by_heads, is_causal=causal).transpose(1, 2)
    torch.testing.assert_close(got.cpu(), want)


def test_its_flash_attention_of_packed_rows() -> None:
    from transformers.integrations.npu_flash_attention import npu_flash_attn_varlen_func

    q, k, v = (torch.randn(9, 3, 8) for _ in range(3))
    ends = torch.tensor([0, 4, 9], dtype=torch.int32)
    got = npu_flash_attn_varlen_func(*(x.npu() for x in (q, k, v)), ends.npu(), ends.npu(), causal=True)
    for start, end in ((0, 4), (4, 9)):
        part = (x[start:end].transpose(0, 1)[None] for x in (q, k, v))
        want = torch.nn.functional.scaled_dot_product_attention(*part, is_causal=True)[0].transpose(0, 1)
        torch.testing.assert_close(got[start:end].cpu(), want)


def test_a_model_generates() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    config = LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64)
    model = LlamaForCausalLM(config).eval()
    tokens = torch.arange(5)[None]
    settings = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    want = model.generate(tokens, **settings)
    assert torch.equal(model.npu().generate(tokens.npu(), **settings).cpu(), want)
