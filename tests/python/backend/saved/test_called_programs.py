# SPDX-License-Identifier: Apache-2.0
"""Saved Programs that take the arguments of the compiled function and return its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import npugraph
from tests.python.backend.checks import assert_same, compile_ex


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def loaded(folder: Path, function: Any, *args: Any, **kwargs: Any) -> Any:
    compile_ex(function, dynamic=True)(*args, **kwargs)
    npugraph.artifacts()[-1].save(folder / "program")
    return npugraph.load(folder / "program", function)


class Pair(NamedTuple):
    rows: int
    values: torch.Tensor


class Model(torch.nn.Module):
    """Returns and takes trees, counts its calls in a buffer, and remembers a tensor."""

    def __init__(self, eps: float = 0.5, name: str = "a") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(4))
        self.eps = eps
        self.name = name

    def forward(self, x, flag: bool = True, n: int = 2, xs=(), *, more: dict[str, torch.Tensor] | None = None) -> Any:
        self.calls.add_(1)
        self.last = x * 2
        y = self.linear(x) * n + (1 if flag else 2) + (self.eps if self.name == "a" else 0)
        for other in xs:
            y = y + other
        return {"y": y, "all": [Pair(x.shape[0], y.sum(0)), None], "more": more["a"] + 1 if more else more, "n": n}


def token(rows: int = 3) -> torch.Tensor:
    return torch.randn(rows, 4, generator=torch.Generator().manual_seed(rows))


def assert_equal_calls(run: Any, ours: Model, eager: Model, *args: Any, **kwargs: Any) -> None:
    got, want = run(*args, **kwargs), eager(*args, **kwargs)
    assert_same(got, want, exact=False)
    assert type(got) is type(want)
    assert list(got) == list(want)
    assert type(got["all"][0]) is Pair
    assert got["all"][1] is None
    assert_same((ours.calls, ours.last), (eager.calls, eager.last), exact=False)


def test_structure_and_writes(tmp_path) -> None:
    model, eager = Model(), Model()
    run = loaded(tmp_path, model, token(), n=7, xs=[token(5)[:3]], more={"a": torch.ones(2)})
    assert run.arguments == ("x", "flag", "n", "xs", "more")
    model.calls.zero_()
    for rows, n in ((3, 7), (6, 9), (2, 3)):
        assert_equal_calls(run, model, eager, token(rows), n=n, xs=[token(9)[:rows]], more={"a": torch.rand(n)})
    assert_equal_calls(run, model, eager, token(2), True, 5, [token(2)], more={"a": torch.rand(4)})


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ((token(), False), {}, r"arguments of which L\['flag'\] == True is true; L\['flag'\] is False"),
        ((token(), True, 2, [token()]), {}, r"L\['xs'\]"),
        ((token(),), {"more": {"a": token()}}, r"L\['more'\]"),
        ((token()[:, :3],), {}, r"L\['x'\]"),
        ((token()[:1],), {}, r"L\['x'\]"),
    ],
)
def test_arguments_of_another_form_are_refused(tmp_path, args: Any, kwargs: Any, words: str) -> None:
    model = Model()
    run = loaded(tmp_path, model, token())
    calls = model.calls.clone()
    with pytest.raises(ValueError, match=words):
        run(*args, **kwargs)
    assert torch.equal(model.calls, calls)
    run(token(4))


def test_a_model_with_other_constants_is_refused(tmp_path) -> None:
    loaded(tmp_path, Model(), token())
    with pytest.raises(ValueError, match=r"a model of which .*name == .a. is true; .*name is .b."):
        npugraph.load(tmp_path / "program", Model(name="b"))


def add(x: torch.Tensor, y: torch.Tensor, mode: str = "add") -> torch.Tensor:
    return x + y if mode == "add" else x - y


def test_one_tensor_for_two_arguments(tmp_path) -> None:
    x, y = token(), token(6)[:3]
    run = loaded(tmp_path, add, x, x)
    assert_same(run(y, y), y + y)
    with pytest.raises(ValueError, match=r"was compiled for arguments of which L\['x'\] is L\['y'\] is true"):
        run(x, y)
    npugraph.reset()
    run = loaded(tmp_path, add, x, y, "sub")
    assert_same(run(y, x, mode="sub"), y - x)
    assert_same(run(y, y, "sub"), y - y)
    with pytest.raises(ValueError, match=r"L\['mode'\] == 'sub' is true; L\['mode'\] is 'add'"):
        run(x, y)
    with pytest.raises(TypeError, match=r"add.*\(x, y, mode\): missing a required argument: 'y'"):
        run(x)


def test_what_dynamo_has_forgotten_returns_the_outputs_of_the_graph(tmp_path) -> None:
    x = token()
    compile_ex(add)(x, x * 2)
    artifact = npugraph.artifacts()[-1]
    torch._dynamo.reset()
    artifact.save(tmp_path / "program")
    got = npugraph.load(tmp_path / "program", add)(x=x, y=x)
    assert isinstance(got, tuple)
    assert_same(got, (x + x,))


def test_what_a_function_closes_over(tmp_path) -> None:
    layer, factor = torch.nn.Linear(4, 4), torch.tensor(2.0)

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return layer(x) * factor

    run = loaded(tmp_path, scaled, token())
    assert run.arguments == ("x",)
    layer.weight = torch.nn.Parameter(torch.randn(4, 4))
    assert_same(run(token(5)), scaled(token(5)), exact=False)


def test_a_method_of_a_model_can_be_saved(tmp_path) -> None:
    class Two(Model):
        def twice(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"twice": self.linear(x) * 2}

    model = Two()
    run = loaded(tmp_path, model.twice, token())
    assert_same(run(token(5)), model.twice(token(5)), exact=False)
    assert list(run(token(2))) == ["twice"]


def test_modules_of_torch(tmp_path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    run = loaded(tmp_path, model, token())
    assert_same(run(token(5)), model(token(5)), exact=False)
    assert isinstance(run(token(5)), torch.Tensor)
