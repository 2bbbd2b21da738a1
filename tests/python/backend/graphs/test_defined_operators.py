# SPDX-License-Identifier: Apache-2.0
"""Operators that are given by what they mean: ``npugraph.define_operator``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import npugraph
import torchair

BY_TEXT = "meaning_tests::by_text(Tensor x, float beta=1.0) -> Tensor"
swish = npugraph.define_operator(BY_TEXT, "x / (1 + exp(-beta * x))")
polar = npugraph.define_operator(
    "meaning_tests::polar(Tensor x, Tensor y) -> (Tensor, Tensor)", "sqrt(x * x + y * y), y - 2 * x"
)
clipped = npugraph.define_operator(
    "meaning_tests::clipped(Tensor x, Tensor low) -> Tensor", "where(x < low, low, minimum(x, low + pi))"
)


@npugraph.define_operator("meaning_tests::normed(Tensor x, Tensor weight, float eps=1e-6) -> Tensor")
def normed(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


@npugraph.define_operator("meaning_tests::decay_(Tensor(a!) x, float by) -> ()")
def decay_(x: torch.Tensor, by: float) -> None:
    x.mul_(by).sub_(1)


ops = torch.ops.meaning_tests


def in_mode(fn: Callable[..., Any], mode: str, dynamic: bool = False) -> Callable[..., Any]:
    if mode == "npugraph_ex":
        return torch.compile(fn, backend=mode, fullgraph=True, dynamic=dynamic)
    config = torchair.CompilerConfig()
    config.debug.missing_converters = "error"
    return torch.compile(fn, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True, dynamic=dynamic)


def chain(x: torch.Tensor) -> torch.Tensor:
    return ops.by_text(x * 2, 0.5) + 1


CASES = {
    "text": (chain, lambda x: (2 * x) * torch.sigmoid(x) + 1),
    "two results": (lambda x: sum(ops.polar(x, x + 1)), lambda x: torch.hypot(x, x + 1) + 1 - x),
    "comparison": (
        lambda x: ops.clipped(x, x - x * x),
        lambda x: torch.minimum(torch.maximum(x, x - x * x), x - x * x + torch.pi),
    ),
    "python": (
        lambda x: ops.normed(x, x[0]),
        lambda x: torch.nn.functional.rms_norm(x, x.shape[-1:], x[0], 1e-6),
    ),
    "in place": (lambda x: decayed(x * 3), lambda x: x * 1.5 - 1),
}


def decayed(x: torch.Tensor) -> torch.Tensor:
    ops.decay_(x, 0.5)
    return x


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mode", ["npugraph_ex", "max-autotune"])
@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_results_are_those_of_the_meaning(case: str, mode: str, dynamic: bool) -> None:
    fn, expected = CASES[case]
    fast = in_mode(fn, mode, dynamic)
    for rows in (4, 6 if dynamic else 4):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(fn(x), expected(x))
        torch.testing.assert_close(fast(x), expected(x))


@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_a_chain_is_one_pass_over_memory(case: str) -> None:
    in_mode(CASES[case][0], "npugraph_ex")(torch.randn(64, 64))
    (artifact,) = npugraph.artifacts()
    (task,) = artifact.tasks
    assert task.kind == "loop"
    assert artifact.memory["copied_bytes_per_replay"] == 0


@pytest.mark.parametrize("name", ["by_text", "normed"])
def test_gradients_are_right_and_the_same_when_compiled(name: str) -> None:
    operator = getattr(ops, name)
    rest = (torch.randn(5, dtype=torch.float64, requires_grad=True),) if name == "normed" else (0.5,)
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(operator, (x, *rest))
    fast = in_mode(lambda x: operator(x * 2, *rest).sum(), "npugraph_ex")
    (expected,) = torch.autograd.grad(operator(x * 2, *rest).sum(), x)
    (got,) = torch.autograd.grad(fast(x), x)
    torch.testing.assert_close(got, expected)


def test_all_steps_are_there() -> None:
    report = npugraph.check_operator("meaning_tests::by_text")
    assert report.ok, str(report)
    assert [step.is_missing for step in report.steps] == [False] * 6


@pytest.mark.parametrize(
    ("schema", "meaning", "message"),
    [
        ("bad(Tensor x -> Tensor", "x", "the operator 'meaning_tests::bad"),
        (BY_TEXT.split("::")[1], "x", "multiple times"),
        ("bad(Tensor x) -> Tensor", "x +", "is no expression"),
        ("bad(Tensor x) -> Tensor", "x * y", "'y' is neither an argument"),
        ("bad(Tensor x) -> Tensor", "x.mul_(2)", r"'x.mul_\(2\)' is no call of abs,"),
        ("bad(Tensor x) -> Tensor", "x.T", "'x.T' is not allowed"),
        ("bad(Tensor x) -> Tensor", "open('x')", "is no call of abs,"),
        ("bad(Tensor x) -> Tensor", "x + 'a'", "'a' is no number"),
        ("bad(Tensor x) -> Tensor", "0 < x < 1", "compares more than two values"),
        ("bad(Tensor x) -> Tensor", "[i for i in x]", "is not allowed"),
        ("bad(Tensor x) -> Tensor", "x, x", "has 2 results, and the schema has 1"),
    ],
)
def test_what_is_no_meaning_is_refused(schema: str, meaning: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        npugraph.define_operator(f"meaning_tests::{schema}", meaning)
    assert not hasattr(ops, "bad")
