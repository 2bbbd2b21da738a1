# SPDX-License-Identifier: Apache-2.0
"""Steps of optimizers, compiled: parameters and state equal eager, and a step is a few loops that write in place."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import optim

import npugraph
from tests.python.backend.checks import assert_same, compile_ex

SHAPES = [(64, 33), (17,), (8, 3, 3, 3), ()]
OPTIMIZERS: list[tuple[type[optim.Optimizer], dict[str, Any]]] = [
    (optim.AdamW, {}),
    (optim.Adam, {"amsgrad": True, "weight_decay": 0.1}),
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (optim.RMSprop, {"momentum": 0.9, "centered": True}),
    (optim.Adagrad, {}),
    (optim.NAdam, {}),
    (optim.RAdam, {}),
    (optim.Adadelta, {}),
    (optim.Adamax, {}),
    (optim.ASGD, {}),
    (optim.Rprop, {}),
]


def parameters(seed: int = 0) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in SHAPES]


def give_gradients(step: int, *models: list[torch.nn.Parameter]) -> None:
    for model in models:
        for parameter, gradient in zip(model, parameters(100 + step), strict=True):
            parameter.grad = gradient.detach()


@pytest.mark.each_value
@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize(("kind", "options"), OPTIMIZERS)
def test_steps_equal_eager(kind, options, foreach) -> None:
    own, eager = parameters(), parameters()
    mine, theirs = kind(own, foreach=foreach, **options), kind(eager, foreach=foreach, **options)
    step = compile_ex(mine.step, fullgraph=False)
    for number in range(4):
        give_gradients(number, own, eager)
        step()
        theirs.step()
    assert_same([p.detach() for p in own], [p.detach() for p in eager], exact=False)
    for a, b in zip(own, eager, strict=True):
        assert_same(mine.state[a], theirs.state[b], exact=False)


@pytest.mark.parametrize("foreach", [False, True])
def test_a_step_is_one_loop_for_each_parameter(foreach) -> None:
    own = parameters()
    optimizer = optim.AdamW(own, foreach=foreach)
    step = compile_ex(optimizer.step, fullgraph=False)
    for number in range(2):
        give_gradients(number, own)
        step()
    artifact = npugraph.artifacts()[-1]
    of_parameters = [task for task in artifact.tasks if "addcdiv" in task.name]
    assert {task.kind for task in artifact.tasks} == {"loop"}
    assert len(of_parameters) == len(SHAPES)
    assert artifact.memory["copied_bytes_per_replay"] == 0


def test_clipped_gradients_equal_eager() -> None:
    def clip_and_step(model, optimizer):
        norm = torch.nn.utils.clip_grad_norm_(model, 0.5, foreach=True)
        optimizer.step()
        return norm

    own, eager = parameters(), parameters()
    mine, theirs = optim.AdamW(own, foreach=True), optim.AdamW(eager, foreach=True)
    compiled = compile_ex(clip_and_step, fullgraph=False)
    for number in range(3):
        give_gradients(number, own, eager)
        norms = compiled(own, mine), clip_and_step(eager, theirs)
        assert_same(*(norm.detach() for norm in norms), exact=False)
    assert_same([p.detach() for p in own], [p.detach() for p in eager], exact=False)
