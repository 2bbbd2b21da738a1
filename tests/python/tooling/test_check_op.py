# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph check-op`` and ``npugraph.check_operator``: what they find, and that they find nothing else."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import npugraph
from tests.python import sample_kernels
from tests.python.forks import run_python

library = torch.library.Library("check_tests", "DEF")
ops = torch.ops.check_tests


def define(schema: str, compute: Callable[..., Any], meta: Callable[..., Any] | None = torch.empty_like) -> None:
    name = schema.split("(")[0]
    library.define(schema)
    library.impl(name, compute, "CPU")
    if meta is not None:
        library.impl(name, meta, "Meta")


def doubles_and_writes(x: torch.Tensor) -> torch.Tensor:
    return x.mul_(2).clone()


define(
    "good(Tensor x, Tensor y, float scale=2.0) -> Tensor", lambda x, y, scale=2.0: x * scale + y, lambda x, *_: x + 0
)
define("good_(Tensor(a!) x, float scale) -> ()", lambda x, scale: (x.mul_(scale), None)[1], None)
define("good_list(Tensor[] xs) -> Tensor", lambda xs: sum(xs), lambda xs: xs[0] + 0)
define("writes(Tensor x) -> Tensor", doubles_and_writes)
define("returns(Tensor x) -> Tensor", lambda x: x)
define("sizes(Tensor x) -> Tensor", lambda x: x * 2, lambda x: x.new_empty(3))
define("types(Tensor x) -> Tensor", lambda x: x * 2, lambda x: torch.empty_like(x, dtype=torch.float32))
define("strides(Tensor x) -> Tensor", lambda x: (x * 2).contiguous(), lambda x: torch.empty_like(x))
define("devices(Tensor x) -> Tensor", lambda x: x * 2, lambda x: torch.empty(x.shape))
define("no_meta(Tensor x) -> Tensor", lambda x: x * 2, None)
define("few_arguments(Tensor x, int n) -> Tensor", lambda x, n: x.view(7, n) * 2, lambda x, n: x.new_empty(7, n))


@torch.library.custom_op("check_tests::wrong_gradient", mutates_args=())
def wrong_gradient(x: torch.Tensor) -> torch.Tensor:
    return x * x


wrong_gradient.register_fake(torch.empty_like)
wrong_gradient.register_autograd(lambda context, gradient: gradient)


@pytest.mark.feature("7.04", "7.05", "7.07")
@pytest.mark.parametrize("name", ["good", "good_", "good_list"])
def test_a_good_operator_passes(name: str) -> None:
    report = npugraph.check_operator(f"check_tests::{name}")
    assert report.ok, str(report)
    assert [step.number for step in report.steps] == [1, 2, 3, 4, 5, 6]
    assert len(report.checks) >= 8
    assert not [check for check in report.checks if check.problem]


def test_a_kernel_of_a_library_has_all_steps() -> None:
    report = npugraph.check_operator(torch.ops.test_ops.scaled_add)
    assert report.ok, str(report)
    assert [step.is_missing for step in report.steps] == [False] * 6
    assert str(sample_kernels.LIBRARY) in str(report)


@pytest.mark.parametrize(
    ("operator", "check", "problem"),
    [
        ("writes", "writes what its schema says", r"it writes its argument x, .* Write Tensor\(a!\) x in the schema"),
        ("returns", "results are new tensors", "result 0 lies in the memory of its argument x"),
        (
            "sizes",
            "Meta function says",
            r"result 0 is float32\[4, 6\] in eager mode, float32\[3\] by the Meta function",
        ),
        ("types", "Meta function says", r"in float64: result 0 is float64\[4, 6\] in eager mode, float32\[4, 6\] by"),
        ("strides", "Meta function says", r"in eager mode, float32\[4, 6\] with strides \(1, 4\) by the Meta function"),
        ("devices", "Meta function says", "result 0 of the Meta function is on cpu"),
        ("wrong_gradient", "gradient", "Jacobian mismatch"),
        ("test_ops.writes_its_input", "writes what its schema says", "it writes its argument x"),
        (
            "test_ops.fails_inside",
            "arguments",
            "The last error:\nRuntimeError: test_ops::fails_inside: no element of x",
        ),
    ],
)
def test_what_is_wrong_is_found(operator: str, check: str, problem: str) -> None:
    namespace, _, name = operator.rpartition(".")
    report = npugraph.check_operator(f"{namespace or 'check_tests'}::{name}")
    assert not report.ok
    (found,) = [entry.problem for entry in report.checks if check in entry.name]
    assert re.search(problem, found), found


@pytest.mark.parametrize(("operator", "number"), [("no_meta", 4), ("unknown", 1)])
def test_missing_steps_come_with_their_code(operator: str, number: int) -> None:
    report = npugraph.check_operator(f"check_tests::{operator}")
    assert not report.ok
    (missing,) = [step for step in report.steps if step.is_missing and step.number != 6]
    assert missing.number == number
    assert missing.code.replace("\n", "\n    ") in str(report)


def test_arguments_may_be_given() -> None:
    assert "no arguments were found that the operator takes" in str(npugraph.check_operator(ops.few_arguments))
    report = npugraph.check_operator(ops.few_arguments, torch.randn(14), 2)
    assert report.arguments == "x=float32[14], n=2"
    (check,) = [check for check in report.checks if "Meta" in check.name]
    assert not check.problem


@pytest.mark.parametrize("name", ["good", "a::b::c", "a::b c"])
def test_names_of_another_form_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"the name of an operator is ns::name or ns::name\.overload, got"):
        npugraph.check_operator(name)


DEFINITION = """
import torch
library = torch.library.Library("my_ops", "DEF")
library.define("double(Tensor x, int n) -> Tensor")
library.impl("double", lambda x, n: x * 2, "CPU")
library.impl("double", lambda x, n: torch.empty_like(x{}), "Meta")
"""


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "npugraph", "check-op", *arguments)


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "double.py"
    file.write_text(DEFINITION.format(""))
    done = command("my_ops::double", file, "--args", "torch.randn(2, 3), n=1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "called with x=float32[2, 3], n=1:" in done.stdout
    assert "@torchair.register_fx_node_ge_converter(torch.ops.my_ops.double.default)" in done.stdout
    file.write_text(DEFINITION.format("[:1]"))
    done = command("my_ops::double", file)
    assert done.returncode == 1
    assert "its Meta function says what eager mode does: PROBLEM" in done.stdout


def test_the_command_with_a_library() -> None:
    done = command("test_ops::scale_", sample_kernels.LIBRARY)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"step 2, kernel: ok (in '{sample_kernels.LIBRARY}')" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("my_ops::double", "nowhere.py"), "'nowhere.py' does not exist"),
        (("double",), "the name of an operator is ns::name"),
        (("aten::relu", "--args", "torch.nothing"), "--args is a list of arguments in Python, got 'torch.nothing'"),
    ],
)
def test_calls_of_the_command_that_are_refused(arguments: tuple[str, ...], message: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
