# SPDX-License-Identifier: Apache-2.0
"""Operators that YAML entries of op-plugin describe, on npu. The kernels are those of
tests/unit/core/libraries/sample_kernels.cc."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import npugraph
from tests.python.device.captures import captured
from tests.python.forks import run_python
from tests.python.sample_kernels import LIBRARY

ENTRIES = """
custom:
  - func: scaled_add(Tensor x, Tensor y, float scale=1.0) -> Tensor
    gen_opapi:
      out: {size: x, dtype: x}
      exec: aclnnScaledAdd
  - func: scale_(Tensor(a!) self, Scalar factor) -> ()
    gen_opapi:
      exec: aclnnInplaceScale
"""


ops = torch.ops.test_npu_plugin


@pytest.fixture(scope="module", autouse=True)
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugin") / "functions.yaml"
    path.write_text(ENTRIES)
    npugraph.load_op_plugin(path, namespace="test_npu_plugin")
    return path


def model(x: torch.Tensor) -> torch.Tensor:
    y = ops.scaled_add(x * 2, x)
    ops.scale_(y, 2)
    return y


def check(run: Callable[[torch.Tensor], torch.Tensor]) -> None:
    for _ in range(3):
        x = torch.randn(5, device="npu")
        torch.testing.assert_close(run(x), 6 * x)


@pytest.mark.feature("7.02")
def test_the_described_operators_run_in_eager_mode() -> None:
    check(model)


@pytest.mark.feature("7.02")
def test_the_described_operators_are_kernels_of_captured_graphs() -> None:
    x = torch.zeros(5, device="npu")
    graph, result = captured(lambda: model(x))
    with npugraph.task_log() as tasks:
        graph.replay()
        torch.npu.synchronize()
    names = [(task.name, task.kind) for task in tasks]
    assert names[-2:] == [("test_npu_plugin.scaled_add", "kernel"), ("test_npu_plugin.scale_", "kernel")]

    def replayed(given: torch.Tensor) -> torch.Tensor:
        x.copy_(given)
        graph.replay()
        return result

    check(replayed)


@pytest.mark.feature("7.02")
@pytest.mark.parametrize("backend", ["npugraph_ex", "npu"])
def test_the_described_operators_run_in_compiled_functions(backend: str) -> None:
    check(torch.compile(model, backend=backend, fullgraph=True))


SCRIPT = f"""
import sys, torch, torch_npu, npugraph

npugraph.load_library({str(LIBRARY)!r})
npugraph.load_op_plugin(sys.argv[1])
print(torch.ops.npu.scaled_add(torch.ones(2).npu(), torch.ones(2).npu(), 2.0))
"""


def test_operators_are_in_the_namespace_of_ascend_s_own(file: Path) -> None:
    """In a process of its own: other tests go through all operators of that namespace."""
    done = run_python("-c", SCRIPT, file)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "tensor([3., 3.], device='npu:0')\n"
