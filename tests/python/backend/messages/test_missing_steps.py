# SPDX-License-Identifier: Apache-2.0
"""An operator of the user that lacks a step: in all modes the error names the operator, the step and the line of the
user, and has the code that is missing. Operators whose kernel is Python ("python"), and those of libraries of kernels
("library")."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.comptime import comptime

import npugraph_ex  # noqa: F401 (the backend)
import torchair
from npugraph.operator_steps.hints import StepError
from tests.python import sample_kernels
from tests.python.forks import run_python

MODES = ("npugraph_ex", "reduce-overhead", "max-autotune")
library = torch.library.Library("step_tests", "DEF")
ops = torch.ops.step_tests


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def double_(x: torch.Tensor) -> torch.Tensor:
    return x.mul_(2)


library.define("no_kernel(Tensor x) -> Tensor")
library.impl("no_kernel", torch.empty_like, "Meta")
library.define("no_kernel_(Tensor(a!) x) -> ()")
library.define("no_meta(Tensor x) -> Tensor")
library.impl("no_meta", doubled, "CPU")
library.define("returns_(Tensor(a!) x) -> Tensor(a!)")
library.impl("returns_", double_, "CPU")
library.define("returns_with_meta_(Tensor(a!) x) -> Tensor(a!)")
library.impl("returns_with_meta_", double_, "CPU")
library.impl("returns_with_meta_", lambda x: x, "Meta")
library.define("no_converter(Tensor x) -> Tensor")
library.impl("no_converter", doubled, "CPU")
library.impl("no_converter", torch.empty_like, "Meta")
library.define("no_converter_(Tensor(a!) x, int n=1) -> ()")
library.impl("no_converter_", lambda x, n=1: (double_(x), None)[1], "CPU")


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def compiled(
    fn: Callable[..., Any], mode: str, *, fullgraph: bool = True, missing: str = "run_eagerly"
) -> Callable[..., Any]:
    if mode == "npugraph_ex":
        return torch.compile(fn, backend=mode, fullgraph=fullgraph)
    config = torchair.CompilerConfig()
    config.mode = mode
    if mode == "max-autotune":
        config.debug.missing_converters = missing
    return torch.compile(fn, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=fullgraph)


def line_of(fn: Callable[..., Any]) -> int:
    return fn.__code__.co_firstlineno


def message_of(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


@pytest.mark.feature("7.01", "7.05")
@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_step_1_and_3_of_both(mode: str, fullgraph: bool) -> None:
    """An operator that nobody defined, and one whose library is not loaded, are the same for torch."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        return ops.nobody_defined(x)

    with pytest.raises(torch._dynamo.exc.Unsupported if fullgraph else AttributeError) as caught:
        compiled(fn, mode, fullgraph=fullgraph)(torch.ones(3))
    text = message_of(caught.value)
    assert "step 1 of torch.ops.step_tests.nobody_defined is missing, its schema" in text
    assert 'torch.library.Library("step_tests", "FRAGMENT")' in text
    assert "npugraph.load_library(PATH)" in text
    in_traceback = any(entry.path == Path(__file__) and entry.lineno == line_of(fn) for entry in caught.traceback)
    assert in_traceback or f'File "{__file__}", line {line_of(fn) + 1}' in text


@pytest.mark.feature("7.01", "7.04")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["no_kernel", "no_kernel_"])
def test_step_2_in_python(mode: str, name: str) -> None:
    operator = getattr(ops, name)

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        operator(y)
        return y

    with pytest.raises(StepError) as caught:
        compiled(fn, mode)(torch.ones(3))
    text = message_of(caught.value)
    assert f"step 2 of torch.ops.step_tests.{name} is missing, its kernel" in text
    assert f'@torch.library.impl("step_tests::{name}", "CPU")\n    def {name}(x):' in text
    assert f"test_missing_steps.py:{line_of(fn) + 2} in fn" in text
    assert f"check-op step_tests::{name}" in text


def test_namespaces_without_operators_get_no_advice() -> None:
    with pytest.raises(AttributeError) as caught:
        torch.ops.nobody_loaded_this.nms  # noqa: B018
    assert not hasattr(caught.value, "__notes__")


breaks_of_dynamo: list[Callable[..., Any]] = []  # what breaks graphs while Dynamo traces the function below


def looked_at(x: torch.Tensor) -> torch.Tensor:
    comptime(lambda _: breaks_of_dynamo.append(torch._dynamo.exc.unimplemented))
    return x + 1


def test_dynamo_is_its_own_for_other_backends() -> None:
    """What Dynamo says of graph breaks is extended while it traces for npugraph, and only then."""
    plain = torch._dynamo.exc.unimplemented
    breaks_of_dynamo.clear()
    for backend in ("eager", "npugraph_ex"):
        torch._dynamo.reset()
        torch.compile(looked_at, backend=backend)(torch.ones(3))
    assert [found is plain for found in breaks_of_dynamo] == [True, False]
    assert torch._dynamo.exc.unimplemented is plain


def test_step_2_in_a_library(tmp_path: Path) -> None:
    source = tmp_path / "empty.cc"
    source.write_text("int nothing;")
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", tmp_path / "empty.so"], check=True)
    with pytest.raises(ValueError, match=r"is no library of kernels: .* NPUGRAPH_KERNEL"):
        sample_kernels.npugraph.load_library(tmp_path / "empty.so")


CASES_WITHOUT_META = [("step_tests", "no_meta"), ("test_ops", "reads_integers")]


@pytest.mark.feature("7.04", "11.07")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("namespace", "name"), CASES_WITHOUT_META, ids=["python", "library"])
def test_step_4_of_both(mode: str, namespace: str, name: str) -> None:
    operator = getattr(getattr(torch.ops, namespace), name)

    def fn(x: torch.Tensor) -> torch.Tensor:
        return operator(x + 1)

    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        compiled(fn, mode)(torch.ones(3))
    text = message_of(caught.value)
    assert f"step 4 of torch.ops.{namespace}.{name} is missing, its Meta function" in text
    assert f'@torch.library.register_fake("{namespace}::{name}")' in text
    assert "return torch.empty_like(x)" in text
    assert f'test_missing_steps.py", line {line_of(fn) + 1}, in fn' in text


@pytest.mark.parametrize("mode", MODES)
def test_without_fullgraph_the_log_says_why_the_graph_breaks(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return ops.no_meta(x + 1) + 1

    x = torch.randn(3)
    torch.testing.assert_close(compiled(fn, mode, fullgraph=False)(x), fn(x))
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert sum("step 4 of torch.ops.step_tests.no_meta is missing" in text for text in found) == 1


@pytest.mark.feature("7.05")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["returns_", "returns_with_meta_"])
def test_step_5_in_python(mode: str, name: str) -> None:
    operator = getattr(ops, name)

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return operator(y)

    with pytest.raises((StepError, torch._dynamo.exc.Unsupported)) as caught:
        compiled(fn, mode)(torch.ones(3))
    text = message_of(caught.value)
    assert f"step 5 of torch.ops.step_tests.{name} is missing, its functionalisation" in text
    assert f'library.define("{name}(Tensor(a!) x) -> ()")' in text
    assert f"{line_of(fn) + 2}" in text


@pytest.mark.feature("7.07", "6.31")
@pytest.mark.parametrize("name", ["no_converter", "no_converter_"])
def test_step_6_in_python(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """A library's operators have converters. Without one, GE mode alone has less."""
    operator = getattr(ops, name)

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        z = operator(y)
        return y if z is None else z

    x = torch.randn(3)
    for mode in MODES:
        torch.testing.assert_close(compiled(fn, mode)(x), fn(x))
    expected = [
        f"torch.ops.step_tests.{name}.default ge_converter is not implemented!",
        f"test_missing_steps.py:{line_of(fn) + 2} in fn",
        f"step 6 of torch.ops.step_tests.{name} is missing, its converter",
        f"@torchair.register_fx_node_ge_converter(torch.ops.step_tests.{name}.default)",
    ]
    assert all(text in caplog.text for text in expected)
    with pytest.raises(NotImplementedError) as caught:
        compiled(fn, "max-autotune", missing="error")(x)
    assert all(text in message_of(caught.value) for text in expected)


@pytest.mark.parametrize("name", ["no_converter", "no_converter_"])
def test_the_code_of_step_6_works_as_it_is_pasted(name: str) -> None:
    script = f"""
import torch, torchair
from npugraph.operator_steps.steps import converter
library = torch.library.Library("pasted", "DEF")
library.define("no_converter(Tensor x) -> Tensor")
library.impl("no_converter", lambda x: x * 2, "CPU")
library.impl("no_converter", torch.empty_like, "Meta")
library.define("no_converter_(Tensor(a!) x, int n=1) -> ()")
library.impl("no_converter_", lambda x, n=1: (x.mul_(2), None)[1], "CPU")
operator = torch.ops.pasted.{name}
exec(converter(operator.default).code)
def fn(x):
    y = x + 1
    z = operator(y)
    return y if z is None else z
config = torchair.CompilerConfig()
config.debug.missing_converters = "error"
fast = torch.compile(fn, backend=torchair.get_npu_backend(compiler_config=config))
with torch.no_grad():
    torch.testing.assert_close(fast(torch.ones(3)), fn(torch.ones(3)))
"""
    done = run_python("-c", script)
    assert done.returncode == 0, done.stderr
