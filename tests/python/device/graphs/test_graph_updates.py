# SPDX-License-Identifier: Apache-2.0
"""Attention in captured graphs whose lengths change without another capture: by ``NPUGraph.update``, and by hand as
vllm-ascend does it for its decode graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_npu
from torch.utils import _pytree as pytree

from tests.python.backend.checks import compile_ex
from tests.python.device.npu_operators import normal, on

HEADS, KEY_HEADS, SIZE, BLOCK = 4, 2, 8, 4
TABLE = torch.tensor([[5, 0, 3], [2, 6, 1], [4, 7, 8]], dtype=torch.int32)
LENGTHS = ([1, 1, 1], [7, 2, 9], [12, 5, 1])  # the first at the capture, the others later


def infer_arguments(tensors: dict[str, torch.Tensor], lengths: list[int]) -> dict[str, Any]:
    return {
        **tensors,
        **{
            "num_heads": HEADS,
            "num_key_value_heads": KEY_HEADS,
            "scale": 0.3,
            "input_layout": "TND",
            "block_size": BLOCK,
        },
        **{"sparse_mode": 0, "actual_seq_lengths": [1, 2, 3], "actual_seq_lengths_kv": lengths},
    }


def infer_v2_arguments(tensors: dict[str, torch.Tensor], lengths: list[int]) -> dict[str, Any]:
    return {
        **tensors,
        **{"num_query_heads": HEADS, "num_key_value_heads": KEY_HEADS, "softmax_scale": 0.3, "input_layout": "TND"},
        **{"block_size": BLOCK, "actual_seq_qlen": [1, 2, 3], "actual_seq_kvlen": lengths},
    }


def infer_tensors() -> dict[str, torch.Tensor]:
    caches = {name: normal(9, BLOCK, KEY_HEADS * SIZE, seed=i) for i, name in enumerate(("key", "value"))}
    return on("npu", {"query": normal(3, HEADS, SIZE, seed=3), **caches, "block_table": TABLE})


def paged_arguments(tensors: dict[str, torch.Tensor], lengths: list[int]) -> dict[str, Any]:
    heads = {"num_kv_heads": KEY_HEADS, "num_heads": HEADS, "scale_value": 0.3}
    return {**tensors, **heads, "context_lens": torch.tensor(lengths, dtype=torch.int32)}


def paged_tensors() -> dict[str, torch.Tensor]:
    names = ("key_cache", "value_cache")
    caches = {name: normal(9, BLOCK, KEY_HEADS, SIZE, seed=i) for i, name in enumerate(names)}
    return on("npu", {"query": normal(3, HEADS, SIZE, seed=3), **caches, "block_table": TABLE})


def latent_arguments(tensors: dict[str, torch.Tensor], lengths: list[int]) -> dict[str, Any]:
    return {**tensors, "context_lens": lengths, "q_headnum": HEADS, "qk_scale": 0.3, "kv_headnum": 1}


def latent_tensors() -> dict[str, torch.Tensor]:
    sizes = {"q_nope": (3, HEADS, 12), "q_rope": (3, HEADS, 4), "ctkv": (9, BLOCK, 1, 12), "k_rope": (9, BLOCK, 1, 4)}
    tensors = {name: normal(*size, seed=i) for i, (name, size) in enumerate(sizes.items())}
    return on("npu", tensors | {"block_tables": TABLE})


@dataclasses.dataclass
class Operator:
    """How to call one operator, and which of its arguments change."""

    call: Any
    out: Any
    tensors: Callable[[], dict[str, torch.Tensor]]
    arguments: Callable[[dict[str, torch.Tensor], list[int]], dict[str, Any]]
    lengths: str
    query: Any = None  # operator that returns its workspace
    written: str = "out"  # keywords of the results; "lists": one list of two
    more: dict[str, Any] = dataclasses.field(default_factory=dict)

    def given(self, tensors: dict[str, torch.Tensor], lengths: list[int]) -> dict[str, Any]:
        return self.arguments(tensors, lengths) | self.more

    def results(self) -> dict[str, Any]:
        """Allocates memory for the results."""
        if self.written == "lists":
            return {"out": [torch.zeros(3, HEADS, SIZE, device="npu"), torch.zeros(1, device="npu")]}
        if "lse" in self.written:
            sizes = {"output": (3, HEADS, 12), "lse": (3, HEADS, 1)}
            return {name: torch.zeros(size, device="npu") for name, size in sizes.items()}
        return {self.written: torch.zeros(3, HEADS, 12 if self.written == "output" else SIZE, device="npu")}

    def workspace(self, tensors: dict[str, torch.Tensor], results: dict[str, Any]) -> torch.Tensor:
        asked = {a.name for a in getattr(self.query, "default", self.query)._schema.arguments}
        given = self.given(tensors, LENGTHS[0]) | results
        return self.query(**{name: value for name, value in given.items() if name in asked})

    def eager(self, tensors: dict[str, torch.Tensor], lengths: list[int]) -> torch.Tensor:
        results = self.results()
        self.out(**self.given(tensors, lengths), **results)
        return first(results)


def first(results: dict[str, Any]) -> torch.Tensor:
    value = next(iter(results.values()))
    return value[0] if isinstance(value, list) else value


atb, npu = torch.ops.atb, torch.ops.npu
OPERATORS = {
    "infer": Operator(
        npu.npu_fused_infer_attention_score, npu.npu_fused_infer_attention_score.out, infer_tensors, infer_arguments,
        "actual_seq_lengths_kv", npu._npu_fused_infer_attention_score_get_max_workspace, "lists",
    ),
    "infer_v2": Operator(
        npu.npu_fused_infer_attention_score_v2, npu.npu_fused_infer_attention_score_v2.out, infer_tensors,
        infer_v2_arguments, "actual_seq_kvlen", npu._npu_fused_infer_attention_score_v2_get_max_workspace, "lists",
    ),
    "paged": Operator(
        None, atb._npu_paged_attention, paged_tensors, paged_arguments, "context_lens",
        atb._npu_paged_attention_get_workspace,
    ),
    "latent": Operator(
        atb.npu_multi_head_latent_attention.default, atb.npu_multi_head_latent_attention.out, latent_tensors,
        latent_arguments, "context_lens", None, "output",
    ),
    "latent_lse": Operator(
        atb.npu_multi_head_latent_attention.lse, atb.npu_multi_head_latent_attention.lse_out, latent_tensors,
        latent_arguments, "context_lens", atb._npu_multi_head_latent_attention_get_workspace.lse, "output, lse",
        {"return_lse": True},
    ),
}  # fmt: skip


def step(tensors: dict[str, torch.Tensor]) -> None:
    """Changes the queries, as another step of decoding would."""
    next(iter(tensors.values())).mul_(-0.5)


CALLS = [(name, out) for name, op in OPERATORS.items() for out in (True, False) if out or op.call]


@pytest.mark.parametrize(
    ("name", "into_out", "compiled"), [(*call, False) for call in CALLS] + [(*call, True) for call in CALLS]
)
def test_a_replay_uses_the_lengths_of_the_update(name: str, into_out: bool, compiled: bool) -> None:
    op = OPERATORS[name]
    tensors = op.tensors()
    results = op.results()

    def attend(tensors: dict[str, torch.Tensor], results: dict[str, Any]) -> torch.Tensor:
        arguments = op.given(tensors, LENGTHS[0])
        if into_out:
            op.out(**arguments, **results)
            return first(results) * 2
        made = op.call(**arguments)
        return (made if isinstance(made, torch.Tensor) else made[0]) * 2

    torch._dynamo.reset()
    run = compile_ex(attend) if compiled else attend
    graph = torch.npu.NPUGraph()
    with torch.no_grad():
        run(tensors, results)
        with torch.npu.graph(graph, auto_dispatch_capture=True):
            y = run(tensors, results)
    for lengths in (*LENGTHS, LENGTHS[1]):
        step(tensors)
        new = op.given(tensors, lengths)[op.lengths]
        graph.update(cpu_update_input=[{op.lengths: new}])
        graph.replay()
        assert torch.equal(y, op.eager(tensors, lengths) * 2)


def test_two_layers_get_their_own_lengths() -> None:
    op, tensors = OPERATORS["infer"], infer_tensors()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, auto_dispatch_capture=True):
        query = tensors["query"]
        for _ in range(2):
            query = op.call(**op.given(tensors | {"query": query}, LENGTHS[0]))[0] + 1
    for two in (LENGTHS[1:], LENGTHS[:2]):
        graph.replay()  # waits for an update at the first layer
        graph.update(cpu_update_input=[{op.lengths: lengths} for lengths in two])
        want = tensors["query"]
        for lengths in two:
            want = op.eager(tensors | {"query": want}, lengths) + 1
        assert torch.equal(query, want)


@pytest.mark.parametrize("name", [name for name, op in OPERATORS.items() if op.query is not None])
def test_a_workspace_is_asked_for_and_passed(name: str) -> None:
    from torch_npu.npu import graph_handlers

    op, tensors = OPERATORS[name], OPERATORS[name].tensors()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, auto_dispatch_capture=True):
        op.out(**op.given(tensors, LENGTHS[0]), **op.results())
    (call,) = graph.graph_dispatch_mode._calls
    workspace = call.kwargs["workspace"]
    assert workspace.shape == op.workspace(tensors, op.results()).shape and workspace.device.type == "npu"
    given = torch.empty(7, device="npu")
    handler = graph_handlers._handlers[call.func.name()]
    assert handler.prepare(call.func, (), call.kwargs | {"workspace": given})[2]["workspace"] is given


class ByHand:
    """One captured step of decoding, built as in vllm-ascend: it refers to tensors without owning them."""

    def __init__(self, op: Operator, tensors: dict[str, torch.Tensor]) -> None:
        self.op, self.graph = op, torch.npu.NPUGraph()
        self.results = op.results()
        self.more = {} if op.query is None else {"workspace": op.workspace(tensors, self.results)}
        self.tensors = {name: torch_npu._C._weak_ref_tensor(one) for name, one in tensors.items()}
        self.event = torch.npu.ExternalEvent()
        self.update_stream = torch.npu.Stream()
        with torch.npu.graph(self.graph):
            stream = torch.npu.current_stream()
            self.event.wait(stream)
            self.event.reset(stream)
            torch.npu.graph_task_group_begin(stream)
            op.out(**op.given(tensors, LENGTHS[0]), **self.more, **self.results)
            self.handle = torch.npu.graph_task_group_end(stream)
            self.y = first(self.results) * 2

    def update(self, lengths: list[int]) -> None:
        with torch.npu.stream(self.update_stream):
            torch.npu.graph_task_update_begin(self.update_stream, self.handle)
            self.op.out(**self.op.given(self.tensors, lengths), **self.more, **self.results)
            torch.npu.graph_task_update_end(self.update_stream)
            self.event.record(self.update_stream)


@pytest.mark.parametrize("replay_first", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_by_hand(name: str, replay_first: bool) -> None:
    op = OPERATORS[name]
    tensors = op.tensors()
    captured = ByHand(op, tensors)
    for lengths in (*LENGTHS, LENGTHS[1]):
        step(tensors)
        steps = [captured.graph.replay, lambda lengths=lengths: captured.update(lengths)]
        for action in steps if replay_first else reversed(steps):
            action()
        assert torch.equal(captured.y, op.eager(tensors, lengths) * 2)


def test_the_text_of_a_graph_shows_its_last_update(tmp_path: Path) -> None:
    captured = ByHand(OPERATORS["infer"], infer_tensors())
    captured.update(LENGTHS[1])
    captured.graph.debug_dump(str(tmp_path / "graph.txt"))
    (call,) = [line for line in (tmp_path / "graph.txt").read_text().splitlines() if "[1, 2, 3]" in line]
    assert str(LENGTHS[1]) in call and str(LENGTHS[0]) not in call


def test_an_update_may_launch_more_than_it_replaces() -> None:
    op, tensors = OPERATORS["infer"], infer_tensors()
    captured = ByHand(op, tensors)
    stream = captured.update_stream
    with torch.npu.stream(stream):
        torch.npu.graph_task_update_begin(stream, captured.handle)
        op.out(**op.given(tensors, LENGTHS[1]), **captured.results)
        first(captured.results).add_(tensors["query"] * 2)  # in memory that each replay allocates
        torch.npu.graph_task_update_end(stream)
        captured.event.record(stream)
    captured.graph.replay()
    assert torch.equal(captured.y, (op.eager(tensors, LENGTHS[1]) + tensors["query"] * 2) * 2)


def test_lengths_on_the_host_are_those_of_the_capture() -> None:
    op, tensors = OPERATORS["paged"], paged_tensors()
    given, out = op.given(tensors, LENGTHS[1]), torch.zeros(3, HEADS, SIZE, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        op.out(**given, out=out)
    given["context_lens"].fill_(1)
    graph.replay()
    assert torch.equal(out, op.eager(tensors, LENGTHS[1]))


def test_graphs_of_several_sizes_share_a_pool_and_a_cache() -> None:
    """There is one graph for each batch size, the largest captured first. Results are kept without owning memory."""
    op, pool = OPERATORS["infer"], torch.npu.graph_pool_handle()
    caches = infer_tensors()
    graphs = {}
    for batch in (3, 2, 1):
        tensors = caches | {name: caches[name][:batch] for name in ("query", "block_table")}
        graph = torch.npu.NPUGraph()
        more = {"actual_seq_lengths": list(range(1, batch + 1))}
        with torch.npu.graph(graph, pool=pool, auto_dispatch_capture=True):
            y = op.call(**op.given(tensors, [1] * batch) | more)[0] + 1
        graphs[batch] = graph, tensors, more, torch_npu._C._weak_ref_tensor(y)
        del y
    for batch in (1, 3, 2, 3):
        step(caches)
        graph, tensors, more, y = graphs[batch]
        lengths = LENGTHS[1][:batch]
        graph.update(cpu_update_input=[{op.lengths: lengths}])
        graph.replay()
        assert torch.equal(y, op.call(**op.given(tensors, lengths) | more)[0] + 1)


# The event, task group, tensors and results that each layer of a captured model leaves for updates.
captured_layers: list[tuple[Any, Any, dict[str, torch.Tensor], dict[str, Any]]] = []


@torch.library.custom_op("graph_updates_test::attention", mutates_args=("output",))
def attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, block_table: torch.Tensor, output: torch.Tensor
) -> None:
    op, tensors = OPERATORS["infer"], {"query": query, "key": key, "value": value, "block_table": block_table}
    results = {"out": [output, torch.empty(1, device=output.device)]}
    stream = torch.npu.current_stream()
    if not torch.npu.is_current_stream_capturing():
        op.out(**op.given(tensors, LENGTHS[0]), **results)
        return
    event = torch.npu.ExternalEvent()
    event.wait(stream)
    event.reset(stream)
    kept = pytree.tree_map(torch_npu._C._weak_ref_tensor, (tensors, results))
    torch.npu.graph_task_group_begin(stream)
    op.out(**op.given(tensors, LENGTHS[0]), **results)
    captured_layers.append((event, torch.npu.graph_task_group_end(stream), *kept))


@pytest.mark.filterwarnings("error::npugraph.DefectWarning")
@pytest.mark.parametrize("dynamic", [False, True])
def test_attention_in_a_custom_operator_of_a_compiled_model(dynamic: bool, tmp_path: Path) -> None:
    op, tensors = OPERATORS["infer"], infer_tensors()
    key, value, table = (tensors[name] for name in ("key", "value", "block_table"))

    def model(query: torch.Tensor, attend: Any) -> torch.Tensor:
        for _ in range(2):
            output = torch.empty_like(query)
            attend(query, key, value, table, output)
            query = output.softmax(-1) + query
        return query * 2

    compiled = compile_ex(lambda query: model(query, attention), dynamic=dynamic)
    captured_layers.clear()
    with torch.no_grad():
        torch.testing.assert_close(compiled(tensors["query"]), model(tensors["query"], attention))
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            y = compiled(tensors["query"])
    graph.debug_dump(str(tmp_path / "graph.txt"))
    text = (tmp_path / "graph.txt").read_text()
    assert text.count("// compiled graph") == 3 and text.count("// task group") == 2
    update = torch.npu.Stream()
    for lengths in LENGTHS:
        step(tensors)
        with torch.npu.stream(update):
            for event, handle, kept, results in captured_layers:
                torch.npu.graph_task_update_begin(update, handle)
                op.out(**op.given(kept, lengths), **results)
                torch.npu.graph_task_update_end(update)
                event.record(update)
        graph.replay()

        def eagerly(query: Any, key: Any, value: Any, table: Any, output: Any, lengths: list[int] = lengths) -> None:
            output.copy_(op.eager(tensors | {"query": query}, lengths))

        torch.testing.assert_close(y, model(tensors["query"], eagerly))


def test_the_rest_of_a_captured_step_may_be_compiled() -> None:
    op, tensors = OPERATORS["infer"], infer_tensors()
    before = compile_ex(lambda x: x.softmax(-1) * 3)
    after = compile_ex(lambda x: torch.nn.functional.silu(x) + 1)
    with torch.no_grad():
        after(before(tensors["query"]))
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph, auto_dispatch_capture=True):
            query = before(tensors["query"])
            y = after(op.call(**op.given(tensors | {"query": query}, LENGTHS[0]))[0])
        for lengths in LENGTHS:
            step(tensors)
            graph.update(cpu_update_input=[{op.lengths: lengths}])
            graph.replay()
            want = op.eager(tensors | {"query": before(tensors["query"])}, lengths)
            assert torch.equal(y, after(want))
