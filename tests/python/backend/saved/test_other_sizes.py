# SPDX-License-Identifier: Apache-2.0
"""Graphs that were compiled with equal sizes, kept, and called with others: the result is right, or the call is refused
with a message that names the input."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

import npugraph
import npugraph_ex
from npugraph.fx.dynamo import sources
from tests.python.backend.checks import assert_same, compile_ex
from tests.python.backend.saved.other_sizes import MODELS, Model

RUN = Path(__file__).parents[4] / "build/release/bin/npugraph-run"
FEW = ("conv2d", "attention", "outer", "halves", "by_rows", "squeeze")
ALL = [pytest.param(m, id=m.name, marks=() if m.name in FEW else pytest.mark.long) for m in MODELS]


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def saved(model: Model, path: Path, *, torch_free: bool = False) -> npugraph.Artifact:
    compile_ex(model.function, dynamic=True)(*model.arguments())
    artifact = npugraph.artifacts()[-1]
    artifact.save(path, torch_free=torch_free)
    return artifact


def inputs_of(artifact: npugraph.Artifact, model: Model, given: list[Any]) -> list[Any]:
    """The list of inputs for a call, as a user would write it who reads their names."""
    names = model.function.__code__.co_varnames[: len(given)]
    arguments = dict(zip(names, given, strict=True))
    inputs = []
    for _, source in artifact.core.inputs():
        path = sources.parse(source)
        value = path.find(arguments[path.argument])
        if path.query is not None:
            value = getattr(value, path.query[0])()[path.query[1]]
        inputs.append(value)
    return inputs


def eagerly(model: Model, given: list[Any]) -> Any:
    """The result and the arguments after the call, or None if the model itself refuses them."""
    own = copy.deepcopy(given)
    try:
        return model.function(*own), own
    except (RuntimeError, IndexError, ValueError):
        return None


@pytest.mark.parametrize("model", ALL)
def test_a_loaded_program_is_right_or_refuses(tmp_path, model: Model) -> None:
    artifact = saved(model, tmp_path / "program")
    run = npugraph.load(tmp_path / "program")
    right = refused = 0
    for given in [model.arguments(), *model.other_arguments(), model.arguments()]:
        want, own = eagerly(model, given), copy.deepcopy(given)
        try:
            got = run(inputs_of(artifact, model, own))
        except ValueError as error:
            assert "input " in str(error), error
            assert "L['" in str(error), error
            assert "compiled for" in str(error), error
            refused += 1
            continue
        assert want is not None, f"eager refuses {[tuple(g.shape) for g in given]}"
        assert_same((got, own), ((want[0],), want[1]), exact=False)
        right += 1
    assert right >= 2  # the calls with the sizes of the compile
    assert right + refused > 4


@pytest.mark.parametrize("model", ALL)
def test_npugraph_run_is_right_or_refuses(tmp_path, model: Model) -> None:
    try:
        artifact = saved(model, tmp_path / "program", torch_free=True)
    except ValueError as error:
        # npugraph-run has no torch. The message names the operators that need it.
        if "needs torch for" not in str(error):
            raise
        pytest.skip(str(error))
    calls = [model.arguments(), *model.other_arguments()]
    for given in calls if model.name not in FEW else calls[:3]:
        want = eagerly(model, given)
        arguments = [tmp_path / "program", "-o", tmp_path]
        for i, value in enumerate(inputs_of(artifact, model, given)):
            if isinstance(value, torch.Tensor):
                numpy.save(tmp_path / f"in{i}.npy", value.numpy())
                value = tmp_path / f"in{i}.npy"
            arguments += ["-i", value]
        done = subprocess.run([RUN, *map(str, arguments)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            assert given is not calls[0], done.stderr
            assert "input " in done.stderr, done.stderr
            assert "L['" in done.stderr, done.stderr
            continue
        assert want is not None
        output = torch.from_numpy(numpy.load(tmp_path / "output0.npy"))
        torch.testing.assert_close(output, want[0].contiguous())


class Cached(torch.nn.Module):
    def __init__(self, model: Model) -> None:
        super().__init__()
        self.function = model.function

    def forward(self, *arguments: torch.Tensor) -> Any:
        return self.function(*arguments)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*compiled again")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_caches_are_right(tmp_path, model: Model) -> None:
    run = npugraph_ex.inference.cache_compile(Cached(model).forward, cache_dir=tmp_path)
    calls = [model.arguments(), *model.other_arguments()]
    for given in [*calls[:3], calls[-1]]:
        want = eagerly(model, given)
        if want is None:
            continue
        own = copy.deepcopy(given)
        assert_same((run(*own), own), want, exact=False)
