# SPDX-License-Identifier: Apache-2.0
"""The option ``release_original_weights`` frees weights that a graph reads only to compute other constants from
them."""

from __future__ import annotations

import pytest
import torch

import npugraph
from tests.python.backend.checks import compile_ex

RELEASE = {"release_original_weights": True}


class Layers(torch.nn.Module):
    """Two layers under autocast, which casts weights and biases to bf16 in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(16, 32)
        self.second = torch.nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return self.second(self.first(x).relu())


def make(kind: type[torch.nn.Module] = Layers) -> torch.nn.Module:
    torch.manual_seed(0)
    return kind()


def weight_bytes(model: torch.nn.Module) -> int:
    return sum(parameter.nbytes for parameter in model.parameters())


def released(model: torch.nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters() if hasattr(parameter, "_npugraph_released")]


@torch.no_grad()
def test_casts_of_weights_are_kept_and_the_weights_are_not() -> None:
    x = torch.randn(4, 16)
    expected = compile_ex(make())(x)
    npugraph.reset()
    model = make()
    compiled = compile_ex(model, options=RELEASE)
    for _ in range(2):
        assert torch.equal(compiled(x), expected)
    (artifact,) = npugraph.artifacts()
    assert artifact.memory["released_weight_bytes"] == weight_bytes(model)
    assert artifact.memory["derived_constant_bytes"] == weight_bytes(model) // 2
    assert artifact.memory["bound_bytes_per_call"] == x.nbytes
    assert len(released(model)) == 4
    assert "['first']._parameters['weight']" in artifact.explain().split("Released weights")[1]


@torch.no_grad()
def test_who_reads_or_writes_a_released_weight_is_told() -> None:
    model = make()
    compile_ex(model, options=RELEASE)(torch.randn(4, 16))
    told = r"\['first'\]._parameters\['\w+'\] was given back: graph Layers_0"
    for use in (
        lambda: model(torch.randn(4, 16)),
        lambda: model.first.weight.sum(),
        lambda: model.first.weight.zero_(),
        lambda: model.load_state_dict(make().state_dict()),
        lambda: torch.compile(model.first, backend="npugraph_ex")(torch.randn(4, 16)),
    ):
        with pytest.raises(RuntimeError, match=told):
            use()


@torch.no_grad()
def test_a_graph_of_another_size_finds_what_was_derived() -> None:
    model = make()
    plain = make()
    compiled = compile_ex(model, options=RELEASE, dynamic=False)
    for rows in (4, 7, 1):
        x = torch.randn(rows, 16)
        torch.testing.assert_close(compiled(x), plain(x), rtol=2e-2, atol=2e-2)
    _, *others = npugraph.artifacts()
    assert len(others) == 2
    assert {artifact.memory["derived_constant_bytes"] for artifact in others} == {weight_bytes(plain) // 2}
    assert [artifact.memory["released_weight_bytes"] for artifact in others] == [0, 0]


class Plain(torch.nn.Module):
    """Reads its weight through a view."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight.t()


class Tied(Plain):
    """Casts its weight, and also reads it without a cast."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.half() @ self.weight.half()).float() + self.weight[0]


class Growing(Plain):
    """Computes a constant from its weight that is larger than the weight."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.double() @ self.weight.double()


class Written(Plain):
    """Writes its weight."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.half() @ self.weight.half()
        self.weight.add_(1)
        return y


class Shared(Plain):
    """Has a second parameter in the memory of its weight, and reads that one without a cast."""

    def __init__(self) -> None:
        super().__init__()
        self.row = torch.nn.Parameter(self.weight.data[0])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.half() @ self.weight.half()).float() + self.row


class Random(Plain):
    """Computes another value from its weight in each call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.nn.functional.dropout(self.weight, training=True)


@pytest.mark.parametrize("kind", [Plain, Tied, Growing, Written, Shared, Random])
@torch.no_grad()
def test_other_weights_stay(kind: type[torch.nn.Module]) -> None:
    x = torch.randn(4, 8)
    model, eager = make(kind), make(kind)
    torch.manual_seed(1)
    got = compile_ex(model, options=RELEASE)(x)
    torch.manual_seed(1)
    torch.testing.assert_close(got, eager(x), rtol=1e-3, atol=1e-3)
    assert released(model) == []
    assert torch.equal(model.weight, eager.weight)
    (artifact,) = npugraph.artifacts()
    assert artifact.memory["released_weight_bytes"] == 0
    assert "Released weights" not in artifact.explain()


class Partly(torch.nn.Module):
    """A product of two weights, one of which is read elsewhere; and a weight that is cast in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Parameter(torch.randn(8, 8))
        self.b = torch.nn.Parameter(torch.randn(8, 8))
        self.c = torch.nn.Parameter(torch.randn(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x @ (self.a @ self.b) + self.b[0]
        return (y.half() @ self.c.half()).relu() @ self.c.half().t()


@torch.no_grad()
def test_a_weight_goes_only_with_all_that_reads_it() -> None:
    x = torch.randn(4, 8)
    model, eager = make(Partly), make(Partly)
    torch.testing.assert_close(compile_ex(model, options=RELEASE)(x), eager(x), rtol=2e-2, atol=0.2)
    assert released(model) == ["c"]
    (artifact,) = npugraph.artifacts()
    assert artifact.memory["released_weight_bytes"] == 2 * artifact.memory["derived_constant_bytes"]


def test_gradients_need_the_weights() -> None:
    model = make()
    compiled = compile_ex(model, options=RELEASE)
    with pytest.raises(Exception, match=r"'release_original_weights'.*needs torch\.no_grad"):
        compiled(torch.randn(4, 16))
    assert released(model) == []
    with torch.no_grad():
        compiled(torch.randn(4, 16))
    assert len(released(model)) == 4


@torch.no_grad()
def test_a_saved_program_carries_what_was_derived(tmp_path) -> None:
    x = torch.randn(4, 16)
    model = make()
    expected = compile_ex(model, options=RELEASE)(x)
    npugraph.artifacts()[0].save(tmp_path / "program")
    assert torch.equal(npugraph.load(tmp_path / "program", model)(x), expected)
