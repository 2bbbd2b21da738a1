# SPDX-License-Identifier: Apache-2.0
"""The model set on npu: eager results and training steps equal those of cpu with npu's products, and compiled results
are as accurate as eager ones."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from benchmarks.model_case import allowed_error, flatten_outputs, reference64, relative_errors
from benchmarks.models import CASES
from tests.python.device.autocast_on_cpu import lists_of_devices_on_cpu
from tests.python.device.products_of_npu import ProductsOfNpu

# One model of each kind for `make test`: encoder, decoder with a cache, encoder and decoder, convolutions, state space.
FEW = {"bert", "llama", "t5", "resnet", "mamba"}
SOME = [pytest.param(name, marks=[pytest.mark.long] * (name not in FEW)) for name in CASES]


def on_npu(value: Any) -> Any:
    """Returns ``value`` with all tensors, also those in caches, on npu."""
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
    with ProductsOfNpu():
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


def training_steps(model: torch.nn.Module, ids: torch.Tensor, kind: str) -> list[torch.Tensor]:
    """Runs two steps of AdamW in float32, under autocast to bfloat16, or under autocast to float16 with scaled
    gradients. Returns the last loss and the parameters."""
    ids = ids.to(next(model.parameters()).device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    scaler = torch.amp.GradScaler(ids.device.type, enabled=kind == "float16", init_scale=64)
    dtype = torch.float16 if kind == "float16" else torch.bfloat16
    for _ in range(2):
        with torch.autocast(ids.device.type, dtype, enabled=kind != "float32"):
            loss = model(input_ids=ids, labels=ids).loss
        optimiser.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
    return [loss.detach(), *(parameter.detach() for parameter in model.parameters())]


SMALL = {"n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 128, "bos_token_id": 0, "eos_token_id": 0}
GPT2_SMALL: dict[str, int] = {}  # the defaults of transformers' GPT2Config


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize(
    "sizes, shape",
    [(SMALL, (2, 16)), pytest.param(GPT2_SMALL, (2, 32), marks=pytest.mark.long)],
    ids=["2 layers", "12"],
)
def test_training_steps_are_equal_to_cpu(sizes: dict[str, int], shape: tuple[int, int], kind: str) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(**sizes, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0)
    model = GPT2LMHeadModel(config)
    other = copy.deepcopy(model).npu()
    ids = torch.randint(0, config.vocab_size, shape)
    with torch.autograd.set_multithreading_enabled(False):
        with lists_of_devices_on_cpu(), ProductsOfNpu():
            want = training_steps(model, ids, kind)
        got = on_cpu(training_steps(other, ids, kind))
    assert all(map(torch.equal, got, want))
