# SPDX-License-Identifier: Apache-2.0
"""Steps of training in GE mode: forward and backward are one graph of GE each, with eager's loss and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from torchair import CompilerConfig, get_npu_backend

TOKENS = torch.arange(24).reshape(2, 12) * 7 % 99
CLASSES = torch.tensor([0, 1])
IMAGES = {"pixel_values": torch.linspace(-1, 1, 6144).sin().reshape(2, 3, 32, 32), "labels": CLASSES}
TEXT = {"input_ids": TOKENS, "labels": TOKENS, "use_cache": False}
Step = tuple[Any, dict[str, Any]]

_WIDTHS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_DECODER = {**_WIDTHS, "vocab_size": 99, "num_key_value_heads": 2, "max_position_embeddings": 32}


def bert(dropout: float = 0.0) -> Step:
    from transformers import BertConfig, BertForSequenceClassification

    drops = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    config = BertConfig(vocab_size=99, max_position_embeddings=32, **_WIDTHS, **drops)
    return BertForSequenceClassification(config), {"input_ids": TOKENS, "labels": CLASSES}


def gpt2() -> Step:
    from transformers import GPT2Config, GPT2LMHeadModel

    drops = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    config = GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=32, **drops, **ends)
    return GPT2LMHeadModel(config), TEXT


def vit() -> Step:
    from transformers import ViTConfig, ViTForImageClassification

    drops = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return ViTForImageClassification(ViTConfig(image_size=32, patch_size=8, num_labels=2, **_WIDTHS, **drops)), IMAGES


def resnet() -> Step:
    from transformers import ResNetConfig, ResNetForImageClassification

    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
    return ResNetForImageClassification(ResNetConfig(num_labels=2, **sizes)), IMAGES


def llama() -> Step:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**_DECODER)), TEXT


def convnext() -> Step:
    from transformers import ConvNextConfig, ConvNextForImageClassification

    config = ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, image_size=32, num_labels=2)
    return ConvNextForImageClassification(config), IMAGES


def t5() -> Step:
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    config = T5Config(vocab_size=99, dropout_rate=0.0, decoder_start_token_id=0, **sizes)
    return T5ForConditionalGeneration(config), TEXT


def mixture() -> Step:
    from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

    experts = {"moe_intermediate_size": 16, "num_experts": 4, "num_experts_per_tok": 2}
    return Qwen2MoeForCausalLM(Qwen2MoeConfig(**_DECODER, **experts, shared_expert_intermediate_size=32)), TEXT


STEPS: tuple[Callable[[], Step], ...] = (bert, gpt2, vit, resnet, llama, convnext, t5, mixture)


def compiled(model: Any, **how: Any) -> Any:
    config = CompilerConfig()
    config.debug.missing_converters = "error"
    torch._dynamo.reset()
    return torch.compile(model, backend=get_npu_backend(compiler_config=config), **how)


def gradients(model: Any, run: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The loss, and the gradients of all parameters that have some."""
    model.zero_grad()
    torch.manual_seed(1)
    loss = run(**inputs).loss
    loss.backward()
    return loss.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]


def check_step(step: Callable[[], Step], **how: Any) -> None:
    """Errors are those of all gradients together, because some are zero but for rounding."""
    torch.manual_seed(0)
    model, inputs = step()
    model.train()
    fast = compiled(model, **how)
    wanted_loss, wanted = gradients(model, model, inputs)
    norm = torch.stack([gradient.norm() for gradient in wanted]).norm()
    for _ in range(2):
        loss, found = gradients(model, fast, inputs)
        torch.testing.assert_close(loss, wanted_loss)
        error = max((ours - theirs).norm() / norm for ours, theirs in zip(found, wanted, strict=True))
        assert error < 1e-6


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_forward_and_backward_are_one_graph_each(step: Callable[[], Step], models: list[Any]) -> None:
    check_step(step)
    assert len(models) == (4 if step is gpt2 else 2)  # Dynamo cuts the program of GPT-2


@pytest.mark.long
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_sizes_that_only_a_run_knows(step: Callable[[], Step]) -> None:
    check_step(step, dynamic=True)


@pytest.mark.feature("6.38")
def test_dropout_of_a_model_is_that_of_eager(models: list[Any]) -> None:
    torch.manual_seed(0)
    model, inputs = bert(0.1)
    model.train()
    want = gradients(model, model, inputs)
    got = gradients(model, compiled(model), inputs)
    torch.testing.assert_close(got[0], want[0])
    for ours, theirs in zip(got[1], want[1], strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    assert "StatelessDropOutGenMask" in {op.type for op in models[0].op} and len(models) == 2
