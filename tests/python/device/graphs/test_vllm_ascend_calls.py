# SPDX-License-Identifier: Apache-2.0
"""Calls of vllm-ascend to the device, apart from operators: start of a worker, profile of memory, fusion patterns, and
decoding from captured graphs of a compiled model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch_npu
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from tests.python.backend.checks import compile_ex
from tests.python.forks import run_python

weak = torch_npu._C._weak_ref_tensor


# The start of a worker.


def test_what_it_imports() -> None:
    import acl.rt
    import torch_npu._inductor
    import torch_npu.profiler.dynamic_profile
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL
    from torch_npu.op_plugin.atb._atb_ops import _register_atb_extensions

    assert 220 <= torch_npu.npu.get_soc_version() <= 225
    assert isinstance(torch_npu._C._NPUTaskGroupHandle, type) and callable(acl.rt.memcpy)
    options = ProcessGroupHCCL.Options()
    options.hccl_config = {"hccl_buffer_size": 200}
    for name in ("global_ranks_in_group", "group_id", "group_name", "op_timeout", "is_high_priority_stream", "backend"):
        assert hasattr(options, name), name
    _register_atb_extensions()
    x, weight, c = (torch.ones(4, 4, device="npu", dtype=dtype) for dtype in (torch.half, torch.half, torch.float32))
    torch_npu._npu_matmul_add_fp32(x, weight, c)  # the worker's warm-up
    assert c.unique().tolist() == [5]
    assert torch_npu.npu.utils._is_gte_cann_version("8.3.RC1", "CANN")


def test_settings_before_the_model_is_loaded() -> None:
    torch_npu.npu.set_compile_mode(jit_compile=False)
    torch.npu.config.allow_internal_format = True
    weight = torch.randn(32, 64, device="npu")
    nz = torch_npu.npu_format_cast(weight, 29)
    assert (
        torch_npu.get_npu_format(nz) == 29 and torch.equal(nz, weight) and torch.equal(nz @ nz.t(), weight @ weight.t())
    )


def test_one_rank_of_hccl() -> None:
    from torch import distributed

    distributed.init_process_group("hccl", rank=0, world_size=1, store=distributed.HashStore())
    try:
        x = torch.ones(3, device="npu")
        distributed.all_reduce(x)
        gathered = [torch.zeros(3, device="npu")]
        distributed.all_gather(gathered, x)
        group = distributed.new_group([0], backend="hccl")
        distributed.barrier(group)
        assert x.tolist() == gathered[0].tolist() == [1, 1, 1]
    finally:
        distributed.destroy_process_group()


def test_the_profile_of_memory() -> None:
    torch.npu.empty_cache()
    torch.npu.reset_peak_memory_stats()
    before = torch.npu.memory_allocated()
    free, total = torch.npu.mem_get_info()
    x = torch.empty(1 << 20, device="npu")
    stats = torch.npu.memory_stats()
    assert stats["allocated_bytes.all.current"] >= x.nbytes and torch.npu.mem_get_info() == (free - x.nbytes, total)
    del x
    torch.npu.empty_cache()
    assert torch.npu.memory_stats()["allocated_bytes.all.peak"] >= before + (1 << 22)
    assert torch.npu.mem_get_info()[0] == free and torch.npu.max_memory_allocated() >= before + (1 << 22)
    torch.npu.reset_peak_memory_stats()
    assert torch.npu.memory_stats()["allocated_bytes.all.peak"] == torch.npu.memory_allocated()


def test_copies_and_random_numbers_of_the_sampler() -> None:
    host = torch.arange(6, dtype=torch.int32).pin_memory()
    on_npu = torch.zeros(6, dtype=torch.int32, device="npu")
    copies = torch.npu.Stream()
    with torch.npu.stream(copies):
        on_npu.copy_(host, non_blocking=True)
        on_npu.record_stream(copies)
    torch.npu.current_stream().wait_stream(copies)
    assert on_npu.to("cpu", non_blocking=True).tolist() == list(range(6))
    generator = torch.Generator("npu").manual_seed(3)
    q = torch.empty(2, 5, device="npu").exponential_(generator=generator)
    generator.manual_seed(3)
    assert torch.equal(q, torch.empty(2, 5, device="npu").exponential_(generator=generator)) and (q > 0).all()


def test_events_that_were_never_recorded() -> None:
    """They behave as those of CUDA: all their work is done, nobody waits for them, and they have no time."""
    event, timed = torch.npu.Event(), torch.npu.Event(enable_timing=True)
    assert event.query() and timed.query()
    event.synchronize()
    event.wait()
    torch.npu.current_stream().wait_event(event)
    with pytest.raises(RuntimeError):
        timed.elapsed_time(torch.npu.Event(enable_timing=True))
    timed.record()
    torch.npu.current_stream().record_event(event)
    assert event.query() and timed.elapsed_time(timed) == 0
    with pytest.raises(RuntimeError):
        timed.elapsed_time(event)


def test_names_of_cuda_may_point_at_npu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "Event",
        "Stream",
        "stream",
        "current_stream",
        "default_stream",
        "mem_get_info",
        "synchronize",
        "graph",
    ):
        monkeypatch.setattr(torch.cuda, name, getattr(torch.npu, name))
    monkeypatch.setattr(torch.cuda, "CUDAGraph", torch.npu.NPUGraph)
    with torch.cuda.stream(torch.cuda.Stream()):
        event = torch.cuda.Event()
        event.record()
    torch.cuda.synchronize()
    assert event.query() and torch.cuda.current_stream() == torch.cuda.default_stream()
    graph, x = torch.cuda.CUDAGraph(), torch.ones(2, device="npu")
    with torch.cuda.graph(graph):
        y = x + 1
    graph.replay()
    assert y.tolist() == [2, 2]


# Patterns of fusions, which are traced when they are imported.

FAKE = """
import torch, torch_npu
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode():
    x, weight = torch.randn(2, 4, device="npu"), torch.randn(4, device="npu")
    y, _, residual = torch.ops.npu.npu_add_rms_norm(x, x, weight, 1e-6)
    assert y.device.type == residual.device.type == "npu" and y.shape == (2, 4)
"""


def test_fake_tensors_before_any_kernel_ran() -> None:
    run_python("-c", FAKE, check=True)


def test_a_fusion_pattern_of_vllm_ascend_is_replaced() -> None:
    from torch._inductor.pattern_matcher import PatternMatcherPass, fwd_only, register_replacement

    def search(x: Any, residual: Any, weight: Any, scale: Any, offset: Any) -> Any:
        y, _, residual = torch.ops.npu.npu_add_rms_norm(x, residual, weight, 1e-6)
        return torch.ops.npu.npu_quantize(y, scale, offset, torch.qint8, -1, False), residual

    def replace(x: Any, residual: Any, weight: Any, scale: Any, offset: Any) -> Any:
        y, _, residual = torch.ops.npu.npu_add_rms_norm_quant(x, residual, weight, 1.0 / scale, offset, epsilon=1e-6)
        return y, residual

    example = [torch.randn(*size, device="npu") for size in [(2, 4), (2, 4), (4,), (4,), (4,)]]
    matcher = PatternMatcherPass()
    register_replacement(search, replace, example, fwd_only, matcher)
    graph = make_fx(search, tracing_mode="fake")(*example).graph
    graph.eliminate_dead_code()
    assert matcher.apply(graph) == 1
    targets = {str(node.target) for node in graph.nodes}
    assert "npu.npu_add_rms_norm_quant.default" in targets and "npu.npu_quantize.default" not in targets


# Decoding from captured graphs (cudagraph_mode FULL_DECODE_ONLY) of a compiled model.

HEADS, KEY_HEADS, SIZE, BLOCK, LAYERS = 4, 2, 16, 4, 2
HIDDEN, VOCABULARY, SEQUENCES, BLOCKS = HEADS * SIZE, 40, 3, 4


@dataclasses.dataclass
class Forward:
    """The facts that a step needs besides its inputs: the forward context of vLLM."""

    caches: list[torch.Tensor]  # one for each layer: keys and values, [2, blocks, places, heads, size]
    slots: torch.Tensor
    tables: torch.Tensor
    lengths: list[int]
    capture: Capture | None = None


@dataclasses.dataclass
class Capture:
    """The workspace and the layers that a capture leaves for updates of its graph."""

    workspace: torch.Tensor | None = None
    layers: list[tuple[Any, ...]] = dataclasses.field(default_factory=list)


forward: Forward


def attend(query: Any, keys: Any, values: Any, tables: Any, lengths: list[int]) -> dict[str, Any]:
    return {
        **{"query": query, "key": keys.flatten(2), "value": values.flatten(2), "block_table": tables},
        **{"num_heads": HEADS, "num_key_value_heads": KEY_HEADS, "input_layout": "TND", "scale": SIZE**-0.5},
        **{"block_size": BLOCK, "actual_seq_lengths": list(range(1, len(lengths) + 1))},
        **{"actual_seq_lengths_kv": lengths},
    }


@torch.library.custom_op("vllm_ascend_test::unified_attention_with_output", mutates_args=("output",))
def unified_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, output: torch.Tensor, layer: int
) -> None:
    keys, values = forward.caches[layer]
    torch_npu.npu_scatter_pa_kv_cache(key, value, keys, values, forward.slots, cache_mode="Norm")
    arguments = attend(query, keys, values, forward.tables, forward.lengths)
    capture = forward.capture
    if capture is None:
        output.copy_(torch_npu.npu_fused_infer_attention_score(**arguments)[0])
        return
    stream = torch.npu.current_stream()
    lse = torch.empty(1, dtype=query.dtype, device=query.device)
    if capture.workspace is None:
        capture.workspace = torch_npu._npu_fused_infer_attention_score_get_max_workspace(**arguments)
    event = torch.npu.ExternalEvent()
    event.wait(stream)
    event.reset(stream)
    kept = (weak(query), keys, values, forward.tables, weak(output), weak(lse))
    torch.npu.graph_task_group_begin(stream)
    torch_npu.npu_fused_infer_attention_score.out(**arguments, workspace=capture.workspace, out=[output, lse])
    capture.layers.append((event, torch.npu.graph_task_group_end(stream), *kept))


class Layer(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.qkv = nn.Linear(HIDDEN, (HEADS + 2 * KEY_HEADS) * SIZE, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN, bias=False), nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
        self.norms = nn.ParameterList([torch.ones(HIDDEN), torch.ones(HIDDEN)])

    def forward(self, positions: Any, x: Any, residual: Any, rotations: Any) -> tuple[Any, Any]:
        x, _, residual = torch_npu.npu_add_rms_norm(x, residual, self.norms[0])
        query, key, value = self.qkv(x).split([HEADS * SIZE, KEY_HEADS * SIZE, KEY_HEADS * SIZE], -1)
        query, key = torch_npu.npu_mrope(positions, query.contiguous(), key.contiguous(), rotations, SIZE)
        query, key, value = (y.reshape(-1, y.shape[-1] // SIZE, SIZE) for y in (query, key, value))
        output = torch.empty_like(query)
        torch.ops.vllm_ascend_test.unified_attention_with_output(query, key, value, output, self.number)
        x, _, residual = torch_npu.npu_add_rms_norm(self.out(output.flatten(1)), residual, self.norms[1])
        return self.down(torch_npu.npu_swiglu(self.up(x))), residual


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(map(Layer, range(LAYERS)))
        angles = torch.arange(BLOCK * BLOCKS)[:, None] / 100 ** (torch.arange(SIZE // 2) / (SIZE // 2))
        self.register_buffer("rotations", torch.cat([angles.cos(), angles.sin()], -1))

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        residual = torch.zeros_like(x)
        for layer in self.layers:
            x, residual = layer(positions, x, residual, self.rotations)
        return x + residual


class Runner:
    """Persistent buffers, and one graph for each number of sequences, the largest captured first, in one pool."""

    def __init__(self, model: Model, run: Any) -> None:
        self.model, self.run = model, run
        self.caches = [
            torch.zeros(2, 1 + SEQUENCES * BLOCKS, BLOCK, KEY_HEADS, SIZE, device="npu") for _ in model.layers
        ]
        self.tokens, self.positions = (torch.zeros(SEQUENCES, dtype=torch.int64, device="npu") for _ in range(2))
        self.slots = torch.zeros(SEQUENCES, dtype=torch.int32, device="npu")
        self.tables = 1 + torch.arange(SEQUENCES * BLOCKS, dtype=torch.int32, device="npu").view(SEQUENCES, BLOCKS)
        self.lengths = [0] * SEQUENCES
        self.update_stream = torch.npu.Stream()
        self.graphs: dict[int, tuple[Any, ...]] = {}

    def context(self, batch: int, capture: Capture | None = None) -> None:
        global forward
        lengths = [1] * batch if capture is not None else self.lengths[:batch]
        forward = Forward(self.caches, self.slots[:batch], self.tables[:batch], lengths, capture)

    def capture(self) -> None:
        pool = torch.npu.graph_pool_handle()
        for batch in range(SEQUENCES, 1, -1):
            inputs = self.tokens[:batch], self.positions[:batch]
            self.lengths = [1] * SEQUENCES
            self.context(batch)
            self.run(*inputs)
            graph, capture = torch.npu.NPUGraph(), Capture()
            self.context(batch, capture)
            with torch.npu.graph(graph, pool=pool):
                result = self.run(*inputs)
            self.graphs[batch] = graph, capture, weak(result)
            del result
        for cache in self.caches:
            cache.zero_()
        self.lengths = [0] * SEQUENCES

    def step(self, tokens: list[int], *, captured: bool) -> torch.Tensor:
        batch = len(tokens)
        self.tokens[:batch].copy_(torch.tensor(tokens).pin_memory(), non_blocking=True)
        positions = torch.tensor(self.lengths[:batch])
        self.positions[:batch].copy_(positions.pin_memory(), non_blocking=True)
        pages = self.tables[:batch].cpu().gather(1, positions[:, None] // BLOCK)[:, 0]
        self.slots[:batch].copy_((pages * BLOCK + positions % BLOCK).int().pin_memory(), non_blocking=True)
        for i in range(batch):
            self.lengths[i] += 1
        if not captured:
            self.context(batch)
            hidden = self.run(self.tokens[:batch], self.positions[:batch])
        else:
            graph, capture, hidden = self.graphs[batch]
            graph.replay()
            self.update(capture, self.lengths[:batch])
        return hidden @ self.model.embedding.weight.t()

    def update(self, capture: Capture, lengths: list[int]) -> None:
        """Updates the lengths after the replay has begun."""
        with torch.npu.stream(self.update_stream):
            for event, handle, query, keys, values, tables, output, lse in capture.layers:
                torch.npu.graph_task_update_begin(self.update_stream, handle)
                torch_npu.npu_fused_infer_attention_score.out(
                    **attend(query, keys, values, tables, lengths), workspace=capture.workspace, out=[output, lse]
                )
                torch.npu.graph_task_update_end(self.update_stream)
                event.record(self.update_stream)

    def decode(self, *, captured: bool) -> Iterator[torch.Tensor]:
        """Decodes three sequences, of which the last one ends first. Yields the logits of each step."""
        tokens = [3, 17, 29]
        for batch in (3, 3, 3, 3, 3, 2, 2):
            logits = self.step(tokens[:batch], captured=captured)
            tokens = logits.argmax(-1).tolist()
            yield logits.clone()


@pytest.mark.filterwarnings("error::npugraph.DefectWarning")
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_decoding_from_captured_graphs(compiled: bool) -> None:
    torch.manual_seed(0)
    model = Model().npu()
    with torch.no_grad():
        want = list(Runner(model, model).decode(captured=False))
        runner = Runner(model, compile_ex(model, dynamic=True) if compiled else model)
        runner.capture()
        got = list(runner.decode(captured=True))
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w)
    if not compiled:
        return
    graph, capture, _ = runner.graphs[SEQUENCES]
    assert len(capture.layers) == LAYERS and graph.pool() == runner.graphs[2][0].pool()
