# SPDX-License-Identifier: Apache-2.0
"""The model set on npu: eager is equal to cpu, compiled equal to eager as on cpu; and a training step."""

from __future__ import annotations

import copy
import os
from typing import Any

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"

from benchmarks.model_case import allowed_error, flatten_outputs, reference64, relative_errors
from benchmarks.models import CASES

# Of each kind one, for `make test`: encoder, decoder with a cache, encoder and decoder, convolutions, state space.
FEW = {"bert", "llama", "t5", "resnet", "mamba"}
SOME = [pytest.param(name, marks=[pytest.mark.long] * (name not in FEW)) for name in CASES]


LEARNING_RATE = 1e-3


def on_npu(value: Any) -> Any:
    """``value`` with all tensors, also those in caches, on npu."""
    if isinstance(value, torch.Tensor):
        return value.npu()
    if isinstance(value, torch.device):
        return torch.device("npu")
    if isinstance(value, dict):
        return {key: on_npu(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(on_npu(item) for item in value)
    if hasattr(value, "layers"):
        for layer in value.layers:
            vars(layer).update(on_npu(vars(layer)))
    return value


def on_cpu(outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    assert all(output.is_npu for output in outputs)
    return [output.cpu() for output in outputs]


@torch.no_grad()
@pytest.mark.parametrize("name", CASES)
def test_eager_is_equal_to_cpu(name: str) -> None:
    case = CASES[name]
    model = case.build()
    want = flatten_outputs(model(**case.inputs(2)))
    got = on_cpu(flatten_outputs(model.npu()(**on_npu(case.inputs(2)))))
    for one, other in zip(got, want, strict=True):
        assert torch.equal(one, other)


@torch.no_grad()
@pytest.mark.parametrize("name", SOME)
def test_compiled_is_as_accurate_as_eager(name: str) -> None:
    torch._dynamo.reset()
    case = CASES[name]
    model = case.build().npu()
    exact = reference64(case, 2)
    eager = relative_errors(on_cpu(flatten_outputs(model(**on_npu(case.inputs(2))))), exact)
    compiled = torch.compile(model, backend="npugraph_ex")
    for _ in range(2):
        errors = relative_errors(on_cpu(flatten_outputs(compiled(**on_npu(case.inputs(2))))), exact)
        assert all(error <= allowed_error(other) for error, other in zip(errors, eager, strict=True))


def training_step(model: torch.nn.Module, kind: str) -> list[torch.Tensor]:
    """Two steps of AdamW: in float32, under autocast, or with scaled gradients in float16. Returns the parameters."""
    device = next(model.parameters()).device
    ids = torch.randint(0, 100, (2, 16), generator=torch.Generator().manual_seed(0)).to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, foreach=False)
    scaler = torch.amp.GradScaler(device.type, enabled=kind == "float16", init_scale=64)
    dtype = torch.float16 if kind == "float16" else torch.bfloat16
    for _ in range(2):
        with torch.autocast(device.type, dtype, enabled=kind != "float32"):
            loss = model(input_ids=ids, labels=ids).loss
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
    return [loss.detach(), *(parameter.detach() for parameter in model.parameters())]


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
def test_a_training_step_is_equal_to_cpu(kind: str) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=128, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0)
    model = GPT2LMHeadModel(config)
    other = copy.deepcopy(model).npu()
    with torch.autograd.set_multithreading_enabled(False):
        want = training_step(model, kind)
        got = on_cpu(training_step(other, kind))
    if kind == "float32":
        assert all(map(torch.equal, got, want))
        return
    # Autocast has other lists on cpu than on devices. A step of AdamW is about as long as the learning rate in each
    # element, in the direction of the gradient's sign, which for gradients of rounding errors is one or the other.
    torch.testing.assert_close(got[0], want[0], rtol=1e-3, atol=0)
    differences = torch.cat([(one - two).abs().flatten() for one, two in zip(got[1:], want[1:], strict=True)])
    assert differences.max() < 4.1 * LEARNING_RATE
    assert differences.mean() < LEARNING_RATE / 20
