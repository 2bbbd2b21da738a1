# SPDX-License-Identifier: Apache-2.0
"""``torchair.ops`` and ``torchair.scope`` on npu, as serving programs use them: attention whose lengths are tensors,
streams, waits, limits and super kernels in one graph of GE mode, with eager's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu

import npugraph
import torchair
from tests.python.device.npu_operators import normal, on
from torchair import ops, scope

LENGTHS = [([2, 3], [4, 6]), ([3, 2], [4, 5]), ([6, 4], [3, 3]), ([5, 5], [6, 6]), ([2, 3], [4, 6])]


@pytest.fixture(autouse=True)
def fresh() -> Any:
    npugraph.reset()
    with torch.no_grad():
        yield


def compiled(function: Callable[..., Any], **how: Any) -> Callable[..., Any]:
    config = torchair.CompilerConfig()
    config.debug.missing_converters.value = "error"
    config.experimental_config.frozen_parameter = True
    config.experimental_config.tiling_schedule_optimize = True
    config.experimental_config.topology_sorting_strategy = "StableRDFS"
    torch._dynamo.reset()
    return torch.compile(function, backend=torchair.get_npu_backend(compiler_config=config), fullgraph=True, **how)


def score(q: Any, k: Any, v: Any, rows: torch.Tensor, keys: torch.Tensor) -> Any:
    lengths = {"actual_seq_lengths": rows, "actual_seq_lengths_kv": keys}
    settings = {"num_heads": 2, "input_layout": "BSH", "scale": 0.3, "softmax_lse_flag": True}
    return ops.npu_fused_infer_attention_score(q * 2, k, v, **settings, **lengths)


def score_v2(q: Any, k: Any, v: Any, rows: torch.Tensor, keys: torch.Tensor) -> Any:
    lengths = {"actual_seq_qlen": rows, "actual_seq_kvlen": keys}
    settings = {"num_query_heads": 2, "input_layout": "BSH", "softmax_scale": 0.3, "return_softmax_lse": True}
    return ops.npu_fused_infer_attention_score_v2(q * 2, k, v, **settings, **lengths)


def by_lists(q: Any, k: Any, v: Any, rows: list[int], keys: list[int]) -> Any:
    lengths = {"actual_seq_lengths": rows, "actual_seq_lengths_kv": keys}
    settings = {"num_heads": 2, "input_layout": "BSH", "scale": 0.3, "softmax_lse_flag": True}
    return torch_npu.npu_fused_infer_attention_score(q * 2, k, v, **settings, **lengths)


@pytest.mark.feature("12e.7")
@pytest.mark.parametrize("step", [score, score_v2])
@pytest.mark.parametrize(("place", "place_of_lengths"), [("cpu", "cpu"), ("npu", "npu"), ("npu", "cpu")])
def test_lengths_in_tensors_change_without_a_compile(
    step: Callable[..., Any], place: str, place_of_lengths: str, graphs: list[Any]
) -> None:
    given = on(place, tuple(normal(2, 6, 16, seed=i) for i in range(3)))
    fast = compiled(step)
    for dtype in (torch.int64, torch.int32):
        for lengths in LENGTHS:
            tensors = on(place_of_lengths, tuple(torch.tensor(length) for length in lengths))
            expected = by_lists(*given, *lengths)
            for made in (fast(*given, *tensors), step(*given, *(length.to(dtype) for length in tensors))):
                torch.testing.assert_close(made, expected)
    (graph,) = graphs
    (op,) = [op for op in graph.graph.op if op.type == "FusedInferAttentionScore"]
    named = {desc.name: source for desc, source in zip(op.input_desc, op.input, strict=True) if source}
    assert {"query", "key0", "value0", "actual_seq_lengths", "actual_seq_lengths_kv"} == named.keys()
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["captures"] == 1


def test_attention_without_lengths_is_made_of_parts() -> None:
    """As that of torch_npu, so that it fuses with its neighbours."""
    given = on("npu", tuple(normal(2, 6, 16, seed=i) for i in range(3)))

    def step(q: Any, k: Any, v: Any) -> torch.Tensor:
        return ops.npu_fused_infer_attention_score(q, k, v, num_heads=2, input_layout="BSH", scale=0.3)[0] + 1

    torch.testing.assert_close(compiled(step)(*given), step(*given))
    (artifact,) = npugraph.artifacts()
    assert not [task.name for task in artifact.tasks if task.name.startswith("air.")]


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The graphs of GE that the compile driver makes from now on."""
    from npugraph.ge.backend import target
    from npugraph.ge.fx import graph

    made: list[Any] = []

    def noting(*args: Any, **kwargs: Any) -> Any:
        built = graph.build(*args, **kwargs)
        made.append(built)
        return built

    monkeypatch.setattr(target, "build", noting)
    return made


class Decoder(torch.nn.Module):
    """A step of a layer in the form of public serving code: attention on the main stream, a shared expert on another
    one, with a wait, limits of cores and a super kernel."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        make = lambda *size, seed: torch.nn.Parameter(normal(*size, seed=seed) / 8)  # noqa: E731
        self.heads = heads
        self.norm = torch.nn.Parameter(torch.ones(width))
        self.query, self.out = make(width, width, seed=1), make(width, width, seed=2)
        self.gate, self.down = make(width, 4 * width, seed=3), make(2 * width, width, seed=4)

    def forward(self, x: torch.Tensor, key: torch.Tensor, value: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        h = torch_npu.npu_rms_norm(x, self.norm)[0]
        with scope.npu_stream_switch("shared"):
            expert = torch_npu.npu_swiglu(h @ self.gate)
            with scope.limit_core_num(1, 1):
                expert = expert @ self.down
        with scope.super_kernel("attention"):
            how = {"num_heads": self.heads, "input_layout": "BSH", "scale": 0.5, "actual_seq_lengths_kv": lengths}
            attended = ops.npu_fused_infer_attention_score(h @ self.query, key, value, **how)[0]
            attended = torch.softmax(attended @ self.out, -1) * x
        attended = scope.npu_wait_tensor(attended, expert)
        return attended + expert


def reference(model: Decoder, x: Any, key: Any, value: Any, lengths: Any) -> torch.Tensor:
    h = torch_npu.npu_rms_norm(x, model.norm)[0]
    expert = torch_npu.npu_swiglu(h @ model.gate) @ model.down
    how = {"num_heads": model.heads, "input_layout": "BSH", "scale": 0.5, "actual_seq_lengths_kv": lengths.tolist()}
    attended = torch_npu.npu_fused_infer_attention_score(h @ model.query, key, value, **how)[0]
    return torch.softmax(attended @ model.out, -1) * x + expert


@pytest.mark.feature("4.05", "4.06", "4.09", "4.11", "12e.1", "12e.7", "12e.10")
@pytest.mark.filterwarnings("error::UserWarning")
def test_a_step_of_a_decoder_is_one_graph(graphs: list[Any]) -> None:
    model = Decoder().npu()
    fast = compiled(model)
    key, value = on("npu", tuple(normal(2, 16, 32, seed=i) for i in (5, 6)))
    for step in range(40):
        x = on("npu", normal(2, 1, 32, seed=step))
        lengths = torch.tensor([step % 16 + 1, (3 * step) % 16 + 1]).npu()
        torch.testing.assert_close(fast(x, key, value, lengths), reference(model, x, key, value, lengths))
    assert len(graphs) == 1
    types = {op.type for op in graphs[0].graph.op} - {"Data", "Const", "NetOutput"}
    assert {"RmsNorm", "SwiGlu", "FusedInferAttentionScore", "Identity", "SoftmaxV2"} <= types
    (artifact,) = npugraph.artifacts()
    assert {task.stream for task in artifact.tasks} == {0, 1}
    assert artifact.counters["captures"] == 1


@pytest.mark.feature("4.01", "12e.10")
def test_streams_and_events_of_npu_are_attributes_and_control_edges(graphs: list[Any]) -> None:
    side = torch.npu.Stream()

    def step(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            y = x.sin()
        torch.npu.current_stream().wait_stream(side)
        return x.cos(), y

    x = on("npu", normal(8, 8))
    torch.testing.assert_close(compiled(step)(x), step(x))
    ops_by_type = {op.type: op for op in graphs[0].graph.op}
    assert "_user_stream_label" in ops_by_type["Sin"].attr
    assert "Sin:-1" in list(ops_by_type["Cos"].input)
    (artifact,) = npugraph.artifacts()
    assert [(task.stream, list(task.waits)) for task in artifact.tasks] == [(1, []), (0, [0])]


@pytest.mark.feature("9.04")
def test_tensors_of_npu_are_printed(capfd: pytest.CaptureFixture[str]) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        ops.npu_print("x", x.half(), tensor_detail=True)
        return x + 1

    x = torch.arange(3.0).npu()
    fast = compiled(step)
    capfd.readouterr()
    for run in (step, fast, fast):
        run(x)
        assert capfd.readouterr().out == "x tensor([0 1 2], shape=[3], dtype=torch.float16)\n"


def test_attention_with_lengths_in_tensors_is_captured_by_npugraph_ex() -> None:
    given = on("npu", tuple(normal(2, 6, 16, seed=i) for i in range(3)))
    torch._dynamo.reset()
    fast = torch.compile(score, backend="npugraph_ex", fullgraph=True)
    for lengths in LENGTHS:
        tensors = on("npu", tuple(torch.tensor(length) for length in lengths))
        torch.testing.assert_close(fast(*given, *tensors), by_lists(*given, *lengths))
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["captures"] == 1
