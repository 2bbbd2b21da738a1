# SPDX-License-Identifier: Apache-2.0
"""Takes one sample of ``training_step``: python -m benchmarks.samples.training_step SIDE MODEL DTYPE REFERENCE SECONDS.

Prints JSON: the median seconds of a step in steady state, the error of the first step's gradients against REFERENCE,
and the bytes of ``peak``.
"""

from __future__ import annotations

import functools
import json
import statistics
import sys
import time
from collections.abc import Callable

import torch

from benchmarks import machine, process_memory, sides
from benchmarks.model_case import Inputs, flatten_outputs, relative_error, run64
from benchmarks.models import CASES

BATCH = 4
AUTOCAST = "autocast bfloat16"
WARM_UP_STEPS, LEAST_STEPS = 3, 3


def main(side: str, name: str, dtype: str, reference: str, seconds: str) -> None:
    machine.use_pinned_threads()
    model, inputs = trained_model(name), CASES[name].inputs(BATCH, "base")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    sides.import_all(side)
    loaded = process_memory.resident()
    loss, update = sides.prepare(side, functools.partial(loss_of, model)), sides.prepare(side, optimizer.step)

    def step() -> None:
        backward(loss, inputs, dtype)
        update()
        optimizer.zero_grad()

    backward(loss, inputs, dtype)
    error = relative_error(gradients(model).double(), torch.load(reference))
    optimizer.zero_grad()
    for _ in range(WARM_UP_STEPS):
        step()
    process_memory.reset_peak()
    taken: list[float] = []
    end = time.perf_counter() + float(seconds)
    while len(taken) < LEAST_STEPS or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        taken.append(time.perf_counter() - start)
    sample = {"seconds": statistics.median(taken), "error": error, "peak": process_memory.peak() - loaded}
    print(json.dumps(sample))


def trained_model(name: str) -> torch.nn.Module:
    """Returns the base-size model in training mode, without dropout, so that all sides compute the same."""
    model = CASES[name].build("base").train().requires_grad_(True)
    if hasattr(model.config, "use_cache"):
        model.config.use_cache = False
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for attribute in ("dropout", "attention_dropout", "dropout_prob"):
            if isinstance(getattr(module, attribute, None), float):
                setattr(module, attribute, 0.0)
    return model


def loss_of(model: torch.nn.Module, inputs: Inputs) -> torch.Tensor:
    """Returns the mean square of the main output."""
    return flatten_outputs(model(**inputs))[0].float().square().mean()


def backward(loss: Callable[[Inputs], torch.Tensor], inputs: Inputs, dtype: str) -> None:
    """Adds the gradients of the loss to those of the parameters."""
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == AUTOCAST):
        value = loss(inputs)
    value.backward()


def gradients(model: torch.nn.Module) -> torch.Tensor:
    """Returns all gradients in one vector. Parameters without one count as zeros."""
    found = [p.grad if p.grad is not None else torch.zeros_like(p) for p in model.parameters()]
    return torch.cat([gradient.flatten() for gradient in found])


@torch.enable_grad()
def gradients64(name: str) -> torch.Tensor:
    """Returns the gradients of the first step, computed in float64 throughout."""
    model = trained_model(name).double()
    run64(model, CASES[name].inputs(BATCH, "base", torch.float64))[0].square().mean().backward()
    return gradients(model)


if __name__ == "__main__":
    main(*sys.argv[1:])
