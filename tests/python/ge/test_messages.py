# SPDX-License-Identifier: Apache-2.0
"""Messages of the parts that torchair shares with npugraph_ex: they speak of the backend that the user chose."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

import npugraph
import npugraph_ex
import torchair
from npugraph.ge.converters import registry
from npugraph.options import parse

X = torch.ones(3)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # reports are written there
    npugraph.reset()
    with torch.no_grad():
        yield
    npugraph.reset()


def compiled(fn: Callable[..., Any], config: torchair.CompilerConfig | None = None) -> Callable[..., Any]:
    return torch.compile(fn, backend=torchair.get_npu_backend(config))


def test_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("something unforeseen")

    monkeypatch.setitem(registry._converters, "aten.sin.default", fail)
    with pytest.warns(npugraph.DefectWarning, match=r"^torchair: \S+ runs uncaptured, .*something unforeseen"):
        torch.testing.assert_close(compiled(lambda x: x.sin())(X), X.sin())


@pytest.mark.parametrize("package", [torchair, npugraph_ex])
def test_an_error_of_a_pass_of_the_user(package: Any) -> None:
    def fail(gm: Any, inputs: Any, config: Any) -> None:
        raise KeyError("mine")

    config = package.CompilerConfig()
    config.post_grad_custom_pre_pass = fail
    with pytest.raises(BackendCompilerFailed, match=rf"^backend='{package.__name__}' raised:"):
        torch.compile(lambda x: x.sin(), backend=package.get_npu_backend(compiler_config=config))(X)


def test_an_error_that_dynamo_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise KeyError("mine")

    monkeypatch.setattr("npugraph.backend.check_scopes", fail)
    with pytest.raises(BackendCompilerFailed, match=r"^backend='torchair' raised:\nKeyError: 'mine'"):
        compiled(lambda x: x.sin())(X)


def test_a_mode_of_torch_compile() -> None:
    with pytest.raises(ValueError, match=r"^backend 'torchair' takes no mode, got mode='max-autotune': "):
        torch.compile(lambda x: x + 1, backend=torchair.get_npu_backend(), mode="max-autotune")(X)


def test_options_without_effect() -> None:
    config = torchair.CompilerConfig()
    config.mode = "npugraph_ex"
    config.npugraphex_config.force_eager = True
    config.npugraphex_config.force_recapture = True
    with pytest.warns(npugraph.NpugraphWarning, match="^torchair: option 'force_recapture' has no effect with"):
        torchair.get_npu_backend(config)


def test_copies_of_options_are_of_the_same_backend() -> None:
    options = parse(None, backend="torchair")
    assert [copied.backend for copied in (options, copy.copy(options), copy.deepcopy(options))] == ["torchair"] * 3


def test_operators_that_python_runs() -> None:
    config = torchair.CompilerConfig()
    config.mode = "npugraph_ex"

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond((x.sum() > 0).float(), lambda x: x.sin(), lambda x: x.cos(), (x,)) * 2

    with pytest.warns(npugraph.NpugraphWarning, match="^torchair: .* runs in Python between captured tasks"):
        compiled(fn, config)(X)
