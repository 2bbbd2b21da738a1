# SPDX-License-Identifier: Apache-2.0
"""Every call sees the changes that were made to the model before it. A deleted model leaves nothing behind."""

from __future__ import annotations

import copy
import gc
import weakref

import pytest
import torch
from torch._dynamo.guards import CheckFunctionManager

import npugraph
from tests.python.backend.checks import assert_same, compile_ex


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.second = torch.nn.Linear(8, 4)
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        return self.second(torch.relu(self.norm(self.first(x)))) * self.scale


def merge_adapter(model):
    with torch.no_grad():
        model.second.weight += torch.randn(4, 2) @ torch.randn(2, 8)


def take_a_step(model):
    optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
    with torch.enable_grad():
        model(torch.randn(4, 8)).sum().backward()
    optimiser.step()


def write_data(model):
    for parameter in model.parameters():
        parameter.data.copy_(torch.randn_like(parameter))
    for artifact in npugraph.artifacts():
        artifact.refresh()


def replace_parameter(model):
    model.first.weight = torch.nn.Parameter(torch.randn(8, 8))


def replace_data(model):
    model.first.weight.data = torch.randn(8, 8)


def replace_buffer(model):
    model.scale = torch.randn(4)


CHANGES = {
    "load_state_dict": lambda model: model.load_state_dict(Model().state_dict()),
    "assigned state": lambda model: model.load_state_dict(Model().state_dict(), assign=True),
    "written data": write_data,
    "replaced data": replace_data,
    "replaced parameter": replace_parameter,
    "replaced buffer": replace_buffer,
    "written buffer": lambda model: model.scale.fill_(3),
    "optimiser": take_a_step,
    "merged adapter": merge_adapter,
    "half and back": lambda model: model.half().float(),
}


@pytest.mark.parametrize("grad", [False, True])
def test_changes_between_calls(grad) -> None:
    model = Model().eval()
    compiled = compile_ex(model)
    x = torch.randn(4, 8)
    with torch.set_grad_enabled(grad):
        for change in (lambda model: None, *CHANGES.values()):
            change(model)
            assert_same(compiled(x), model(x), exact=False)
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["compiles"] == 1


@pytest.mark.feature("3.02")
def test_parameters_and_static_addresses_are_bound_where_they_lie() -> None:
    """Neither is copied. A parameter whose data is replaced needs no new capture; in Ascend's graphs it does."""
    layer = torch.nn.Linear(8, 8)
    cache = torch.zeros(4, 8)
    torch._dynamo.mark_static_address(cache)

    def fn(x, cache):
        cache.add_(1)
        return layer(x) + cache

    compiled = compile_ex(fn)
    x, own = torch.randn(4, 8), torch.zeros(4, 8)
    with torch.no_grad():
        for _ in range(3):
            assert_same(compiled(x, cache), fn(x, own), exact=False)
            layer.weight.data = torch.randn(8, 8)
        assert_same(cache, own)
    (artifact,) = npugraph.artifacts()
    assert artifact.graph("import").count(" parameter ") == 2
    assert artifact.graph("import").count(" static ") == 1
    assert artifact.program().count(" parameter(") == 3
    assert artifact.memory["copied_bytes_per_replay"] == 0
    assert artifact.counters["captures"] == 1


def test_another_dtype() -> None:
    model = Model().eval()
    compiled = compile_ex(model)
    with torch.no_grad():
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float32):
            model.to(dtype)
            x = torch.randn(4, 8, dtype=dtype)
            assert_same(compiled(x), model(x), exact=False)


@pytest.mark.parametrize("grad", [False, True])
def test_running_statistics_move_on(grad) -> None:
    own = Model().train()
    eager = copy.deepcopy(own)
    compiled = compile_ex(own)
    with torch.set_grad_enabled(grad):
        for _ in range(3):
            x = torch.randn(4, 8)
            assert_same(compiled(x), eager(x), exact=False)
            assert_same(own.state_dict(), eager.state_dict(), exact=False)
        own.eval()
        assert_same(compiled(x), eager.eval()(x), exact=False)


def assert_nothing_held() -> None:
    gc.collect()
    assert npugraph.artifacts() == []
    assert npugraph.pools() == []


@pytest.mark.parametrize("grad", [False, True])
def test_a_deleted_model_leaves_nothing_behind(grad) -> None:
    model = Model().eval()
    compiled = compile_ex(model)
    with torch.set_grad_enabled(grad):
        result = compiled(torch.randn(4, 8))
        if grad:
            result.sum().backward()
    assert npugraph.artifacts()
    assert npugraph.pools()
    held = [weakref.ref(parameter) for parameter in model.parameters()]
    del model, compiled, result
    gc.collect()
    assert [ref() for ref in held] == [None] * len(held)
    assert_nothing_held()


def test_a_deleted_model_with_branches_leaves_nothing_behind() -> None:
    class Branches(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Model()

        def forward(self, x):
            return torch.cond(x.sum() > 0, self.inner, lambda t: t[:, :1] * 2, (x,))

    compiled = compile_ex(Branches().eval())
    with torch.no_grad():
        for x in (torch.ones(4, 8), -torch.ones(4, 8)):
            compiled(x)
    assert len(npugraph.artifacts()) == 3
    del compiled
    assert_nothing_held()


def test_two_models_of_one_class() -> None:
    first, second = Model().eval(), Model().eval()
    x = torch.randn(4, 8)
    with torch.no_grad():
        for model in (first, second, first):
            assert_same(compile_ex(model)(x), model(x), exact=False)
        (artifact,) = npugraph.artifacts()
        del first, model
        gc.collect()
        assert npugraph.artifacts() == [artifact]
        assert_same(compile_ex(second)(x), second(x), exact=False)
        del second
        assert_nothing_held()
        third = Model().eval()
        assert_same(compile_ex(third)(x), third(x), exact=False)
        assert npugraph.artifacts() == [artifact]
        assert artifact.counters["compiles"] == 1


@pytest.mark.parametrize("forget", [npugraph.reset, torch._dynamo.reset])
def test_reset_frees_everything(forget) -> None:
    model = Model().eval()
    compiled = compile_ex(model)
    with torch.no_grad():
        compiled(torch.randn(4, 8))
    forget()
    assert_nothing_held()
    assert "npugraph_ex" not in torch._dynamo.utils.counters
    x = torch.randn(4, 8)
    assert_same(compiled(x), model(x), exact=False)
    assert npugraph.artifacts()


def test_reset_frees_guards_that_hold_on_to_classes_and_functions() -> None:
    npugraph.reset()
    before = len(guards_alive())
    model = Model().eval()
    compile_ex(model)(torch.randn(4, 8))
    assert len(guards_alive()) > before
    npugraph.reset()
    assert len(guards_alive()) == before


def guards_alive() -> list[CheckFunctionManager]:
    return [thing for thing in gc.get_objects() if type(thing) is CheckFunctionManager]


def test_reset_drops_machine_code_that_nothing_uses() -> None:
    def product(x, w):
        return torch.relu(x @ w) * 1.375  # a constant that no other test has

    x, w = torch.randn(40, 24), torch.randn(24, 24)
    builds = []
    for _ in range(2):
        compile_ex(product)(x, w)
        builds.append(torch._dynamo.utils.counters["npugraph_ex"]["kernel_builds"])
        npugraph.reset()
    assert min(builds) > 0


def test_a_held_artifact_can_still_be_read() -> None:
    compiled = compile_ex(lambda x: x.sin() + 1)
    compiled(torch.ones(3))
    (artifact,) = npugraph.artifacts()
    del compiled
    npugraph.reset()
    assert npugraph.artifacts() == []
    assert "sin" in artifact.graph()
    assert artifact.counters["replays"] == 1
