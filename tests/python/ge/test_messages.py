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
from npugraph.options import backend_of, parse

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


def captured() -> torchair.CompilerConfig:
    """A configuration of the mode that captures graphs."""
    config = torchair.CompilerConfig()
    config.mode = "npugraph_ex"
    return config


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
    text = (
        r"(?m)^backend 'torchair' takes no mode, got mode='max-autotune'; set compiler_config\.mode of get_npu_backend$"
    )
    with pytest.raises(ValueError, match=text):
        torch.compile(lambda x: x + 1, backend=torchair.get_npu_backend(), mode="max-autotune")(X)


@pytest.mark.parametrize(
    ("package", "instead"), [(torchair, ""), (npugraph_ex, ", or use backend='npugraph_ex'")], ids=["ge", "ex"]
)
def test_options_of_torch_compile(package: Any, instead: str) -> None:
    text = rf"(?m)takes no options, got options={{'verify': True}}; set them in its compiler_config{instead}$"
    with pytest.raises(ValueError, match=text):
        torch.compile(lambda x: x + 1, backend=package.get_npu_backend(), options={"verify": True})(X)


def test_options_that_contradict_each_other() -> None:
    config = captured()
    config.npugraphex_config.remove_cat_ops = True
    config.npugraphex_config.disable_passes = ["sink_cat", "recompute_parts"]
    with pytest.raises(ValueError, match=r"^options of backend 'torchair' contradict each other: remove_cat_ops=True "):
        torchair.get_npu_backend(config)


def test_weights_to_release_with_gradients() -> None:
    config = captured()
    config.npugraphex_config.release_original_weights = True
    with torch.enable_grad(), pytest.raises(ValueError, match=r"^option 'release_.*' of backend 'torchair' needs "):
        compiled(lambda x: x.sin(), config)(X)


def test_options_that_a_pass_of_the_user_sets() -> None:
    options = parse(None, backend="torchair")
    with pytest.raises(ValueError, match=r"^unknown option 'nope' of backend 'torchair'; "):
        options.nope = 1
    with pytest.raises(ValueError, match=r"^option 'verify' of backend 'torchair' takes True or False"):
        options.verify = 1
    with pytest.raises(TypeError, match=r"^options of backend 'torchair' takes a dict"):
        parse(["verify"], backend="torchair")  # type: ignore[arg-type]


def test_options_without_effect() -> None:
    config = captured()
    config.npugraphex_config.force_eager = True
    config.npugraphex_config.force_recapture = True
    with pytest.warns(npugraph.NpugraphWarning, match="^torchair: option 'force_recapture' has no effect with"):
        torchair.get_npu_backend(config)


def test_copies_of_options_are_of_the_same_backend() -> None:
    options = parse(None, backend="torchair")
    assert [backend_of(copied) for copied in (options, copy.copy(options), copy.deepcopy(options))] == ["torchair"] * 3


def test_operators_that_python_runs() -> None:
    config = captured()

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.cond((x.sum() > 0).float(), lambda x: x.sin(), lambda x: x.cos(), (x,)) * 2

    with pytest.warns(npugraph.NpugraphWarning, match="^torchair: .* runs in Python between captured tasks"):
        compiled(fn, config)(X)
