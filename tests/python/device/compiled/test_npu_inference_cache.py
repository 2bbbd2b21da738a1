# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs of npu tensors that later processes use."""

from __future__ import annotations

import pytest
import torch
import torch_npu
from torch._dynamo.utils import counters

import npugraph
import npugraph_ex
from npugraph.fx.translate import pieces

_errors: list[str] = []


@torch.library.custom_op("test_npu_inference_cache::wait", mutates_args=())
def wait(x: torch.Tensor) -> torch.Tensor:
    try:
        torch.npu.synchronize()
    except RuntimeError as error:
        _errors.append(str(error))
    return x + 1


wait.register_fake(torch.empty_like)


class Waiting(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.test_npu_inference_cache.wait(x) * 2


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache.add_(x.sum(0))
        y, _, _ = torch_npu.npu_add_rms_norm(self.linear(x), x, torch.ones_like(cache), 1e-6)
        return y + cache


@pytest.mark.feature("5.01", "5.06", "12e.9")
@torch.no_grad()
def test_npu_and_cpu_tensors_have_graphs_of_their_own(tmp_path) -> None:
    model = Model()
    for device in ("npu", "cpu", "npu"):
        npugraph.reset()
        model.to(device)
        function = npugraph_ex.inference.cache_compile(model.forward, cache_dir=tmp_path)
        ours, eagers = torch.zeros(8, device=device), torch.zeros(8, device=device)
        x = torch.randn(3, 8, device=device)
        if device == "cpu":
            with pytest.warns(UserWarning, match="compiled again"):
                function(x, ours.clone())
        y = function(x, ours)
        assert y.device == x.device
        torch.testing.assert_close(y, model(x, eagers))
        torch.testing.assert_close(ours, eagers)
    assert counters["npugraph_ex"]["compiles"] == 0
    assert counters["npugraph_ex"]["inference_cache_hits"] == 1


@pytest.mark.feature("5.03")
@pytest.mark.parametrize("decompositions", [{}, {torch.ops.aten.relu.default: lambda x: x.clamp(min=0)}])
@torch.no_grad()
def test_graphs_with_operators_of_others_are_in_no_cache(tmp_path, decompositions) -> None:
    """Operators of others run in Python at each call, with and without custom decompositions."""
    model, x = Waiting(), torch.ones(4, device="npu")
    function = npugraph_ex.inference.cache_compile(
        model.forward, cache_dir=tmp_path, custom_decompositions=decompositions
    )
    with pytest.warns(UserWarning, match="not cached for later processes: its graph needs Python at each call"):
        assert function(x).tolist() == [4] * 4
    assert not function.path.exists()


@pytest.mark.feature("1.09", "5.01")
@torch.no_grad()
def test_a_capture_of_a_graph_from_a_file_refuses_to_wait(tmp_path, monkeypatch) -> None:
    # The operator counts as one of ours, so that its graph is cached, unlike in the test above.
    monkeypatch.setattr(pieces, "_OF_TASKS", {*pieces._OF_TASKS, "test_npu_inference_cache"})
    model, x = Waiting(), torch.ones(4, device="npu")
    options = {"capture_error_mode": "thread_local"}
    first = npugraph_ex.inference.cache_compile(model.forward, cache_dir=tmp_path, options=options)
    first(x)
    npugraph.artifacts()[-1].save(tmp_path / "program")
    npugraph.reset()
    cached = npugraph_ex.inference.cache_compile(model.forward, cache_dir=tmp_path, options=options)
    loaded = npugraph.load(tmp_path / "program", model, options=options)
    for run in (cached, lambda x: loaded(x)[0]):
        _errors.clear()
        assert run(x).tolist() == run(x).tolist() == [4] * 4
        (error,) = _errors
        assert 'capture_error_mode="thread_local"' in error
    assert counters["npugraph_ex"]["compiles"] == 0
    npugraph.load(tmp_path / "program", model)(x)
    assert len(_errors) == 1
