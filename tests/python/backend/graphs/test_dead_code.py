# SPDX-License-Identifier: Apache-2.0
"""Operators whose results nobody reads are not run, unless they have side effects. Copies of a tensor to itself are
removed."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import npugraph
import npugraph_ex
from tests.python.backend.checks import assert_same, compile_ex, task_names

aten = torch.ops.aten
calls: list[str] = []


@torch.library.custom_op("dead_code_tests::silent", mutates_args=())
def silent(x: torch.Tensor) -> torch.Tensor:
    calls.append("silent")
    return x + 1


@torch.library.custom_op("dead_code_tests::telling", mutates_args=())
def telling(x: torch.Tensor) -> torch.Tensor:
    calls.append("telling")
    return x + 1


silent.register_fake(torch.empty_like)
telling.register_fake(torch.empty_like)
torch.fx.node.has_side_effect(torch.ops.dead_code_tests.telling.default)


@pytest.fixture(autouse=True)
def no_grad():
    calls.clear()
    with torch.no_grad():
        yield


@pytest.mark.feature("2.17")
def test_dead_operators_go_and_effects_stay() -> None:
    def fn(x):
        x.exp().cumsum(0)
        silent(x)
        telling(x)
        return x.sin()

    x = torch.randn(4)
    compiled = compile_ex(fn)
    assert_same(compiled(x), x.sin(), exact=False)
    (artifact,) = npugraph.artifacts()
    names = task_names(artifact)
    assert [name for name in names if "dead_code_tests" in name] == ["dead_code_tests.telling"]
    assert calls == ["telling"]
    assert not any(word in name for name in names for word in ("exp", "cumsum", "silent"))


@pytest.mark.feature("2.17")
def test_the_pass_removes_what_other_passes_leave() -> None:
    """The graph is one of make_fx, which keeps dead operators. Graphs from torch.compile have none."""

    def fn(x):
        x.exp().cumsum(0)
        return (x.sin(),)

    x = torch.randn(4)
    tasks = {}
    for off in ([], ["dce"]):
        gm = make_fx(fn, tracing_mode="fake")(x)
        compiled = npugraph_ex.compile_fx(gm, options={"disable_passes": off, "generate_code": False})
        assert_same(compiled(x), fn(x))
        tasks[len(off)] = task_names(npugraph.artifacts()[-1])
    assert tasks == {0: ["aten.sin.out"], 1: ["aten.exp.out", "aten.cumsum.out", "aten.sin.out"]}


@pytest.mark.feature("2.19")
@pytest.mark.parametrize("part", [False, True])
def test_copies_of_a_tensor_to_itself_go(part) -> None:
    def fn(x):
        y = x[1:] if part else x
        y.copy_(x[1:] if part else y)
        return x * 2

    x = torch.randn(4)
    own = x.clone()
    compiled = compile_ex(fn)
    assert_same(compiled(x), own * 2)
    assert_same(x, own)
    (artifact,) = npugraph.artifacts()
    assert artifact.memory["copied_bytes_per_replay"] == 0
    assert "aten.copy_" not in artifact.graph(artifact.stages[-3])


@pytest.mark.feature("2.19")
def test_copies_of_other_places_stay() -> None:
    """The copies are one of a part onto another part, and one of the same elements in another order."""

    def fn(x, y):
        x[:2].copy_(x[2:])
        y.copy_(y.t().clone())
        return x * 2, y + 1

    given, expected = [(torch.arange(4.0), torch.arange(9.0).view(3, 3)) for _ in range(2)]
    assert_same(compile_ex(fn)(*given), fn(*expected))
    assert_same(given, expected)
    (artifact,) = npugraph.artifacts()
    assert artifact.memory["copied_bytes_per_replay"] > 0
