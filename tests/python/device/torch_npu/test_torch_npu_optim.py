# SPDX-License-Identifier: Apache-2.0
"""torch_npu.optim against torch.optim, and against rules written down here in float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch_npu import optim

_SHAPES = ((3, 4), (5,), ())
_STEPS = 4


def _problem(device: str, dtype: torch.dtype) -> tuple[list[torch.nn.Parameter], list[list[torch.Tensor]]]:
    generator = torch.Generator().manual_seed(1)
    params = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in _SHAPES]
    grads = [[torch.randn(shape, generator=generator, dtype=torch.float64) for shape in _SHAPES] for _ in range(_STEPS)]
    made = [torch.nn.Parameter(one.to(device, dtype)) for one in params]
    return made, [[one.to(device, dtype) for one in step] for step in grads]


def _run(make: Callable, device: str = "npu", dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    params, grads = _problem(device, dtype)
    optimizer = make(params)
    for step in grads:
        for param, grad in zip(params, step, strict=True):
            param.grad = grad.clone()
        optimizer.step()
    return [param.detach().cpu().double() for param in params]


@pytest.mark.parametrize(
    "name, kwargs",
    [
        ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
        ("Adadelta", {"lr": 0.5, "weight_decay": 0.1}),
        ("Adam", {"lr": 0.1, "amsgrad": True}),
        ("AdamW", {"lr": 0.1}),
        ("RMSprop", {"lr": 0.1, "momentum": 0.5, "centered": True}),
    ],
)
def test_rules_of_torch(name: str, kwargs: dict):
    found = _run(lambda params: getattr(optim, f"NpuFused{name}")(params, **kwargs))
    expected = _run(lambda params: getattr(torch.optim, name)(params, **kwargs), "cpu", torch.float64)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def _reference(rule: Callable) -> list[torch.Tensor]:
    """Returns the parameters after all steps. ``rule(x, g, state, number of the step from 1 on, gradients)`` gives the
    next x."""
    params, grads = _problem("cpu", torch.float64)
    values, states = [one.detach() for one in params], [{} for _ in params]
    for number, step in enumerate(grads, 1):
        values = [rule(x, g, state, number, step) for x, g, state in zip(values, step, states, strict=True)]
    return values


def _moments(g: torch.Tensor, state: dict, b1: float, b2: float) -> tuple[torch.Tensor, torch.Tensor]:
    state["m"] = b1 * state.get("m", 0) + (1 - b1) * g
    state["v"] = b2 * state.get("v", 0) + (1 - b2) * g**2
    return state["m"], state["v"]


@pytest.mark.parametrize("adam", [False, True])
@pytest.mark.parametrize("use_global_grad_norm", [False, True])
def test_lamb_steps_follow_the_written_rule(adam: bool, use_global_grad_norm: bool):
    def rule(x, g, state, number, step):
        norm = math.sqrt(sum(float((one**2).sum()) for one in step)) if use_global_grad_norm else 1
        m, v = _moments(g / max(norm, 1), state, 0.9, 0.999)
        u = m / (v.sqrt() + 1e-6) + 0.01 * x
        w, n = min(float(x.norm()), 10), float(u.norm())
        return x - 0.1 * u * (1 if adam or not w or not n else w / n)

    found = _run(lambda params: optim.NpuFusedLamb(params, 0.1, (0.9, 0.999), 1e-6, 0.01, adam, use_global_grad_norm))
    torch.testing.assert_close(found, _reference(rule), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("delta", [0.0, 4.0])  # 0 never projects, 4 always does
def test_adamp_steps_follow_the_written_rule(nesterov: bool, delta: float):
    def rule(x, g, state, number, step):
        m, v = _moments(g, state, 0.9, 0.999)
        change = (0.9 * m + 0.1 * g if nesterov else m) / ((v / (1 - 0.999**number)).sqrt() + 1e-8)
        decay = 0.05
        if x.dim() > 1 and delta > 1:
            unit = x / x.norm(dim=1, keepdim=True)
            change, decay = change - unit * (unit * change).sum(1, keepdim=True), 0.05 * 0.1
        return x * (1 - 0.1 * decay) - 0.1 / (1 - 0.9**number) * change

    found = _run(lambda params: optim.NpuFusedAdamP(params, 0.1, weight_decay=0.05, delta=delta, nesterov=nesterov))
    torch.testing.assert_close(found, _reference(rule), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("schedule", ["warmup_linear", "warmup_constant", "warmup_cosine", "warmup_poly"])
def test_bert_adam(schedule: str):
    shares = {
        "warmup_linear": lambda x: (1 - x) / 0.7,
        "warmup_constant": lambda x: 1,
        "warmup_cosine": lambda x: (1 + math.cos(math.pi * x)) / 2,
        "warmup_poly": lambda x: math.sqrt(1 - x),
    }

    def rule(x, g, state, number, step):
        m, v = _moments(g * min(1, 1 / (float(g.norm()) + 1e-6)), state, 0.9, 0.999)
        done = (number - 1) / 8
        rate = 0.1 * (done / 0.3 if done < 0.3 else shares[schedule](done))
        return x - rate * (m / (v.sqrt() + 1e-6) + 0.01 * x)

    found = _run(lambda params: optim.NpuFusedBertAdam(params, 0.1, warmup=0.3, t_total=8, schedule=schedule))
    torch.testing.assert_close(found, _reference(rule), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("in_momentum", [False, True])
@pytest.mark.parametrize("centered, decoupled", [(False, True), (True, False)])
def test_rmsprop_of_tensorflow(momentum: float, in_momentum: bool, centered: bool, decoupled: bool):
    def rule(x, g, state, number, step):
        if decoupled:
            x = x * (1 - 0.1 * 0.05)
        else:
            g = g + 0.05 * x
        state["v"] = 0.9 * state.get("v", torch.ones_like(x)) + 0.1 * g**2
        state["m"] = 0.9 * state.get("m", 0) + 0.1 * g
        change = g / (state["v"] - (state["m"] ** 2 if centered else 0) + 1e-10).sqrt()
        if not momentum:
            return x - 0.1 * change
        state["b"] = momentum * state.get("b", 0) + change * (0.1 if in_momentum else 1)
        return x - state["b"] * (1 if in_momentum else 0.1)

    def make(params):
        return optim.NpuFusedRMSpropTF(params, 0.1, 0.9, 1e-10, 0.05, momentum, centered, decoupled, in_momentum)

    torch.testing.assert_close(_run(make), _reference(rule), rtol=1e-4, atol=1e-5)


def test_combined_parameters_and_gradients():
    params, grads = _problem("npu", torch.float32)
    optimizer = optim.NpuFusedAdamW(params, lr=0.1)
    before = copy.deepcopy(params)
    for param, grad in zip(params, grads[0], strict=True):
        param.grad = grad
    combined, of_grads = optimizer.get_combined_params()[0], optimizer.get_combined_grads()[0]
    assert combined.numel() == of_grads.numel() == sum(param.numel() for param in params)
    norm = optimizer.clip_grad_norm_fused_(0.5)
    torch.testing.assert_close(of_grads.norm().cpu(), torch.tensor(0.5))
    assert norm > 0.5
    optimizer.step()
    for param, old in zip(params, before, strict=True):
        assert not torch.equal(param, old)
    torch.testing.assert_close(combined[:12].view(3, 4), params[0].detach())
    optimizer.zero_grad()
    assert not of_grads.any() and params[0].grad is not None
    optimizer.zero_grad(set_to_none=True)
    assert params[0].grad is None


def test_states_are_saved_and_closures_called():
    params, grads = _problem("npu", torch.float32)
    optimizer = optim.NpuFusedLamb(params)
    for param, grad in zip(params, grads[0], strict=True):
        param.grad = grad
    assert optimizer.step(lambda: 7) == 7
    other = optim.NpuFusedLamb(params)
    other.load_state_dict(optimizer.state_dict())
    assert torch.equal(other.state[params[0]]["exp_avg"], optimizer.state[params[0]]["exp_avg"])


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda params: optim.NpuFusedSGD(params), "NpuFusedSGD: lr must be given"),
        (lambda params: optim.NpuFusedBertAdam(params), "NpuFusedBertAdam: lr must be given"),
        (lambda params: optim.NpuFusedBertAdam(params, 1, schedule="x"), "schedule is 'x', allowed are warmup_cosine"),
        (lambda params: optim.NpuFusedBertAdam(params, 1, warmup=2), "warmup is 2, and must be from 0 to 1, or -1"),
        (lambda params: optim.NpuFusedLamb(params, lr=-1), "lr is -1, and must be at least 0"),
        (
            lambda params: optim.NpuFusedAdamP(params, betas=(0.9, 1)),
            r"betas\[1\] is 1, and must be at least 0 and below",
        ),
    ],
)
def test_what_no_rule_takes(make: Callable, text: str):
    with pytest.raises(ValueError, match=text):
        make([torch.nn.Parameter(torch.ones(1, device="npu"))])
