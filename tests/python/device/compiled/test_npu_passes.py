# SPDX-License-Identifier: Apache-2.0
"""Graph passes, and the options that switch them, on npu tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch_npu  # noqa: F401

import npugraph
from tests.python.backend.checks import compile_ex, task_names
from tests.python.backend.graphs.test_passes_on_and_off import CASES, compare

# The graphs of the other cases contain cpu tensors, and are the same on both devices.
ON_NPU = sorted(set(CASES) - {"bound_attention", "expand_batch_norm", "fold_constants"})


@pytest.fixture(autouse=True)
def fresh():
    npugraph.reset()
    with torch.no_grad():
        yield


@pytest.mark.feature("2.09", "2.13", "2.14", "2.17")
@pytest.mark.parametrize("name", ON_NPU)
def test_it_makes_a_program_better(name: str) -> None:
    compare(CASES[name], name, "npu")


@pytest.mark.feature("1.12", "2.09")
@pytest.mark.parametrize("generate", [False, True])
def test_remove_cat_ops(generate: bool) -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.cat([x * 2, y + 1]), torch.cat([x.neg(), y.abs(), x - y], -1)

    x, y = torch.randn(2, 32, 64).npu().unbind()
    found = {}
    for on in (True, False):
        compiled = compile_ex(fn, options={"remove_cat_ops": on, "generate_code": generate})
        result = compiled(x, y)
        (artifact,) = npugraph.artifacts()
        found[on] = result, artifact.memory["copied_bytes_per_replay"], task_names(artifact)
        npugraph.reset()
    torch.testing.assert_close(found[True][0], found[False][0], rtol=0, atol=0)
    torch.testing.assert_close(found[True][0], fn(x, y))
    assert (found[True][1], found[False][1]) == (0, 5 * 32 * 64 * 4)
    assert len(found[True][2]) < len(found[False][2])


@pytest.mark.feature("2.19")
def test_copies_of_a_tensor_to_itself_go() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x[1:].copy_(x[1:])
        return x * 2

    x = torch.randn(4).npu()
    compiled = compile_ex(fn)
    assert torch.equal(compiled(x), x * 2)
    (artifact,) = npugraph.artifacts()
    assert artifact.memory["copied_bytes_per_replay"] == 0
    assert not any("copy" in name for name in task_names(artifact))
