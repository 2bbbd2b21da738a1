# SPDX-License-Identifier: Apache-2.0
"""Captured graphs: replays do what eager mode does on the same memory, and captures have no visible effect."""

from __future__ import annotations

import itertools
import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_npu
from torch import nn
from torch_npu.npu.graph_handlers import OutHandler

import npugraph
from tests.python.backend.checks import compile_ex
from tests.python.device.captures import captured, numbers, same
from tests.python.device.op_database import REFUSED
from tests.python.device.tensors import tensors, to_npu
from tests.python.op_samples import OPERATORS, UNCOMPARED, samples

# Effects of captures and of replays.


@pytest.mark.feature("3.10")
def test_replays_read_inputs_and_write_results_in_place():
    x, w = numbers(4, 8), numbers(8, 8)

    def fn() -> torch.Tensor:
        y = torch.relu(x @ w) + 1
        return torch.softmax(y[:, 2:6].transpose(0, 1), -1)

    graph, y = captured(fn)
    address = y.data_ptr()
    for scale in (1.0, -0.5, 3.0):
        x.copy_(numbers(4, 8) * scale)
        graph.replay()
        assert same(y, fn()) and y.data_ptr() == address


def test_a_copy_of_memory_to_itself_is_no_launch(tmp_path: Path):
    x, y = numbers(3, 4), numbers(8, 4)

    def fn() -> None:
        x.copy_(x.view(12).view(3, 4))
        y[:4].copy_(y[4:])
        y[:4].copy_(y[:4])

    graph, _ = captured(fn)
    graph.debug_dump(str(tmp_path / "graph.txt"))
    assert (tmp_path / "graph.txt").read_text().count('"aten.copy_"') == 1


def test_a_compiled_graph_writes_its_results_where_the_capture_had_them():
    compiled = compile_ex(lambda x: (x * 2, (x + 1).t(), x.sum()))
    x = numbers(3, 4)
    with torch.no_grad():
        graph, results = captured(lambda: compiled(x))
    kept = [result.clone() for result in results]
    for _ in range(3):
        x.add_(1)
        graph.replay()
        assert all(same(got, want) for got, want in zip(results, (x * 2, (x + 1).t(), x.sum()), strict=True))
    assert not same(kept[0], results[0])
    assert npugraph.artifacts()[-1].memory["copied_bytes_per_replay"] == 0


def test_a_capture_changes_no_memory_outside_of_the_graph():
    x, total = numbers(5), numbers(5)
    before = x.clone(), total.clone()

    def fn() -> None:
        x.mul_(2)
        total.add_(x)
        torch.add(x, 1, out=total)[0] = 3 * x[1]

    graph, _ = captured(fn)
    assert same(x, before[0]) and same(total, before[1])
    graph.replay()
    replayed = x.clone(), total.clone()
    x.copy_(before[0]), total.copy_(before[1])
    fn()
    assert same(x, replayed[0]) and same(total, replayed[1])
    graph.replay()
    assert same(x, before[0] * 4)


def test_statistics_of_a_norm_are_written_by_replays_alone():
    norm, eager = (nn.BatchNorm1d(4, momentum=0.5).npu() for _ in range(2))
    x = numbers(6, 4)
    graph, y = captured(lambda: norm(x))
    assert same(norm.running_mean, torch.zeros(4)) and norm.num_batches_tracked.item() == 0
    for _ in range(2):
        graph.replay()
        assert same(y, eager(x))
    assert all(map(same, norm.buffers(), eager.buffers()))


def test_what_dies_in_a_capture_is_memory_of_the_run(tmp_path: Path):
    x = numbers(16)
    graph, y = captured(lambda: (x + 1) * 2 - 3)
    graph.debug_dump(str(tmp_path / "graph.txt"))
    text = (tmp_path / "graph.txt").read_text()
    assert text.count(" heap ") == 2 and text.count('aten "aten.') == 3
    graph.replay()
    assert same(y, (x + 1) * 2 - 3)


def test_launches_are_written_as_traces(tmp_path: Path):
    """One file shows each stream by itself, and the other one in the order in which they wait for each other."""
    x, side = numbers(16), torch.npu.Stream()

    def fn() -> torch.Tensor:
        main = torch.npu.current_stream()
        y = x + 1
        side.wait_stream(main)
        with torch.npu.stream(side):
            z = y * 2
            z.sin_()
        main.wait_stream(side)
        return z - 3

    graph, _ = captured(fn)
    graph.debug_dump(str(tmp_path / "graph.json"))
    files = (tmp_path / "graph.json", tmp_path / "graph.aligned.json")
    alone, together = (json.loads(path.read_text())["traceEvents"] for path in files)
    names = ["aten.add.Tensor", "aten.mul.Tensor", "aten.sin_", "aten.sub.Tensor"]
    assert [event["name"] for event in alone] == names
    assert [event["args"] for event in alone] == [{"task": i, "waits": w} for i, w in enumerate([[], [0], [], [2]])]
    main, streams = alone[0]["tid"], [event["tid"] for event in alone]
    assert streams == [main, side.stream_id, side.stream_id, main] and main != side.stream_id
    assert [event["ts"] for event in alone] == [0, 0, 1, 1]
    assert [event["ts"] for event in together] == [0, 1, 2, 3]
    assert [event["args"]["task"] for event in together] == [0, 1, 2, 3]
    graph.debug_dump(str(tmp_path / "graph.txt"))
    assert (tmp_path / "graph.txt").read_text().startswith("// launches")


def test_operators_of_all_kinds():
    x, index = numbers(6, 4), torch.tensor([5, 0, 3], device="npu")
    weight = numbers(3, 2, 3, 3)
    image = numbers(1, 2, 8, 8)

    def fn() -> list[torch.Tensor]:
        values, places = torch.topk(x, 2)
        parts = torch.split(x * 2, 2)
        cached = torch.zeros(6, 4, device="npu").index_copy_(0, index, x[index])
        filled = torch.empty(3, device="npu", dtype=torch.int32).fill_(7)
        pieces = torch._foreach_add([x, values], 1.5)
        return [
            values, places, *parts, cached, filled, *pieces,
            torch.cat([x, x.flip(0)], 1), x[index], x.to(torch.bfloat16), x.masked_fill(x > 1, -1.0),
            nn.functional.conv2d(image, weight, padding=1), nn.functional.layer_norm(x, (4,)), x.sum(), x.max(0)[0],
            torch.where(x > 1, x, 0.5), nn.functional.scaled_dot_product_attention(*[x.view(1, 1, 6, 4)] * 3),
            torch.ops.npu.npu_rms_norm(x, x[0])[0], x.std(1), torch.arange(4, device="npu"),
            torch.complex(x, x).conj() * 2, x + torch.tensor(2.0), torch.complex(x, x).conj().clone(),
        ]  # fmt: skip

    graph, made = captured(fn)
    for _ in range(2):
        x.add_(0.25)
        graph.replay()
        for result, expected in zip(made, fn(), strict=True):
            assert same(result.resolve_conj(), expected.resolve_conj()) and result.dtype == expected.dtype


def test_a_number_from_the_host_is_that_of_the_capture():
    x, factor = numbers(3), torch.tensor(2.0)
    graph, y = captured(lambda: x * factor)
    factor.fill_(5.0)
    graph.replay()
    assert same(y, x * 2)


def test_results_live_as_long_as_the_graph_and_inputs_too():
    inputs = [numbers(4)]
    graph, y = captured(lambda: inputs[0] + 1)
    view = y[1:]
    del y
    inputs.clear()
    graph.replay()
    assert same(view, numbers(4)[1:] + 1)


def test_a_training_step():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).npu()
    x, y = torch.randn(16, 4, device="npu"), torch.randn(16, 1, device="npu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=False)
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    side = torch.npu.Stream()
    with torch.npu.stream(side):
        step()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    graph, loss = captured(step)
    assert all(same(value, state[name]) for name, value in model.state_dict().items())
    graph.replay()
    graph.replay()
    after, replayed = {name: value.clone() for name, value in model.state_dict().items()}, loss.clone()
    model.load_state_dict(state)
    step()
    assert same(step(), replayed)
    assert all(same(value, after[name]) for name, value in model.state_dict().items())


# Random numbers.


@pytest.mark.feature("3.10")
@pytest.mark.parametrize("own_generator", [False, True])
def test_random_numbers_go_on_with_each_replay_as_in_eager(own_generator: bool):
    generator = torch.Generator("npu") if own_generator else None
    source = generator or torch.npu.default_generators[0]

    def fn() -> list[torch.Tensor]:
        x = torch.rand(4, device="npu", generator=generator)
        y = torch.empty(4, device="npu").normal_(generator=generator)
        return [x, y] if own_generator else [x, y, nn.functional.dropout(x), torch.bernoulli(x)]

    source.manual_seed(3)
    before = source.get_state()
    graph, made = captured(fn)
    assert torch.equal(source.get_state(), before)
    replayed = []
    for _ in range(3):
        graph.replay()
        replayed.append([one.clone() for one in made])
    source.manual_seed(3)
    for results in replayed:
        assert all(map(same, results, fn()))
    assert not same(replayed[0][0], replayed[1][0])


# Pools, streams, threads.


@pytest.mark.feature("3.10")
def test_graphs_share_a_pool():
    x = numbers(8)
    first, y = captured(lambda: (x + 1).mul(2), pool=torch.npu.graph_pool_handle())
    second, z = captured(lambda: (y - 3).exp(), pool=first.pool())
    assert first.pool() == second.pool() != captured(lambda: x + 1)[0].pool()
    for _ in range(2):
        x.add_(0.5)
        first.replay()
        second.replay()
        assert same(y, (x + 1) * 2) and same(z, ((x + 1) * 2 - 3).exp())
    first.reset()
    second.replay()
    assert same(z, (y - 3).exp())


def test_reset_gives_memory_back_and_allows_another_capture():
    x = numbers(1 << 16)
    graph, y = captured(lambda: x + 1)
    del y
    held = torch.npu.memory_allocated()
    graph.reset()
    assert torch.npu.memory_allocated() <= held - x.nbytes
    with pytest.raises(RuntimeError, match="replay: no graph was captured"):
        graph.replay()
    with torch.npu.graph(graph):
        y = x * 2
    graph.replay()
    assert same(y, x * 2)
    with pytest.raises(RuntimeError, match=r"was captured already; reset\(\) makes it new"), torch.npu.graph(graph):
        pass


def test_streams_that_wait_for_the_captured_one_belong_to_it():
    x = numbers(8)
    side = torch.npu.Stream()

    def fn() -> tuple[torch.Tensor, torch.Tensor]:
        here = torch.npu.current_stream()
        y = x + 1
        side.wait_stream(here)
        with torch.npu.stream(side):
            assert torch.npu.is_current_stream_capturing()
            z = y * 2
        here.wait_stream(side)
        return y, z - x

    graph, (_, z) = captured(fn)
    x.mul_(3)
    graph.replay()
    assert same(z, (x + 1) * 2 - x)
    with torch.npu.stream(side):
        assert not torch.npu.is_current_stream_capturing()


def test_a_stream_that_is_not_joined_again_ends_no_capture():
    x = numbers(8)
    side = torch.npu.Stream()

    def fn() -> None:
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            x.add_(1)

    with pytest.raises(RuntimeError, match="has work that the captured stream has not waited for"):
        captured(fn)
    assert same(x, numbers(8))


def test_a_stream_that_only_waits_needs_not_be_joined():
    x, side = numbers(8), torch.npu.Stream()

    def fn() -> torch.Tensor:
        side.wait_stream(torch.npu.current_stream())
        return x + 1

    graph, y = captured(fn)
    x.add_(1)
    graph.replay()
    assert same(y, x + 1)


def test_work_in_other_streams_is_not_captured():
    x, y = numbers(4), numbers(4)
    other = torch.npu.Stream()

    def fn() -> torch.Tensor:
        with torch.npu.stream(other):
            y.add_(1)
        return x + 1

    graph, _ = captured(fn)
    assert same(y, numbers(4) + 1)
    graph.replay()
    assert same(y, numbers(4) + 1)


@pytest.mark.feature("3.10")
def test_replay_in_another_thread():
    x = numbers(4, 4)
    graph, y = captured(lambda: x @ x)
    x.add_(1)
    threads = [threading.Thread(target=graph.replay) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert same(y, x @ x)


def test_pinned_memory_is_read_and_written_by_replays():
    host_in, host_out = torch.ones(4).pin_memory(), torch.zeros(4).pin_memory()
    x = torch.empty(4, device="npu")

    def fn() -> None:
        x.copy_(host_in, non_blocking=True)
        host_out.copy_(x * 2, non_blocking=True)

    graph, _ = captured(fn)
    assert torch.equal(host_out, torch.zeros(4))
    for value in (3.0, 4.0):
        host_in.fill_(value)
        graph.replay()
        assert torch.equal(host_out, torch.full((4,), 2 * value))


def test_a_compiled_function_is_part_of_the_graph():
    x, cache = numbers(4, 8), torch.zeros(4, 8, device="npu")

    def fn(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache.add_(x)
        return torch.softmax(cache * 2, -1)

    compiled = compile_ex(fn)
    with torch.no_grad():
        compiled(x, cache)
        before = cache.clone()
        graph, y = captured(lambda: compiled(x + 1, cache) - 1)
        assert same(cache, before)
        graph.replay()
        replayed = y.clone(), cache.clone()
        cache.copy_(before)
        assert same(compiled(x + 1, cache) - 1, replayed[0]) and same(cache, replayed[1])


def test_torch_accelerator_graph():
    x = numbers(4)
    graph = torch.accelerator.Graph()
    with torch.npu.Stream(), graph:
        y = x * 2
    x.add_(1)
    graph.replay()
    assert same(y, x * 2)


# Task groups and updates.


def make_operator(name: str):
    """Registers an operator, with an overload ``out``, that sums the first ``lengths[row]`` elements of each row."""
    library = torch.library.Library("graphs_test", "FRAGMENT")
    library.define(f"{name}(Tensor x, *, SymInt[] lengths) -> Tensor")
    library.define(f"{name}.out(Tensor x, *, SymInt[] lengths, Tensor(a!) out) -> Tensor(a!)")

    def out(x, *, lengths, out):
        for row, length in enumerate(lengths):
            out[row] = x[row, :length].sum()
        return out

    library.impl(name, lambda x, *, lengths: out(x, lengths=lengths, out=x.new_empty(x.size(0))), "CPU")
    library.impl(f"{name}.out", out, "CPU")
    library.impl(name, lambda x, *, lengths: x.new_empty(x.size(0)), "Meta")
    return library, getattr(torch.ops.graphs_test, name)


_library, partial_sums = make_operator("partial_sums")


_library.define("scaled(Tensor x, SymInt[] by) -> (Tensor, Tensor)")
_library.define("scaled.out(Tensor x, SymInt[] by, *, Tensor? workspace=None, Tensor[] out) -> (Tensor, Tensor)")


def scaled_out(x, by, *, workspace=None, out):
    out[0].copy_(x * sum(by))
    out[1].fill_(len(by))
    return out[0], out[1]


def scaled_sizes(x, by):
    return torch.empty_like(x), x.new_empty(1)


_library.impl("scaled.out", scaled_out, "CPU")
_library.impl("scaled", lambda x, by: scaled_out(x, by, out=scaled_sizes(x, by)), "CPU")
_library.impl("scaled", scaled_sizes, "Meta")


def sums(x: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    return torch.stack([row[:length].sum() for row, length in zip(x.cpu(), lengths, strict=True)])


@pytest.mark.feature("3.10")
def test_a_task_group_is_replaced_without_a_new_capture():
    x, out = numbers(2, 6), torch.zeros(2, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        stream = torch.npu.current_stream()
        y = x + 1
        torch.npu.graph_task_group_begin(stream)
        partial_sums.out(y, lengths=[1, 2], out=out)
        handle = torch.npu.graph_task_group_end(stream)
        z = out * 2
    assert isinstance(handle, torch_npu._C._NPUTaskGroupHandle)
    graph.replay()
    assert same(z, sums(x + 1, [1, 2]) * 2)
    update = torch.npu.Stream()
    for lengths in ([3, 4], [6, 0]):
        before = out.clone()
        with torch.npu.stream(update):
            torch.npu.graph_task_update_begin(update, handle)
            partial_sums.out(y, lengths=lengths, out=out)
            torch.npu.graph_task_update_end(update)
        assert same(out, before)  # the update records the operator and does not run it
        x.add_(1)
        graph.replay()
        assert same(z, sums(x + 1, lengths) * 2)
    with pytest.raises(RuntimeError, match="no operator was launched between begin and end"):
        torch.npu.graph_task_update_begin(update, handle)
        torch.npu.graph_task_update_end(update)
    graph.reset()
    with pytest.raises(RuntimeError, match="the graph of the task group has not been captured, or was reset"):
        torch.npu.graph_task_update_begin(update, handle)


def test_replays_stop_at_an_external_event_until_it_is_recorded():
    x = numbers(4)
    event = torch.npu.ExternalEvent()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = x + 1
        event.wait()
        event.reset()
        z = y * 2
    z.fill_(-1)
    for first in ("replay", "record"):
        x.add_(1)
        if first == "record":
            event.record()
        graph.replay()
        if first == "replay":
            for forbidden in (lambda: x + 1, torch.npu.synchronize, lambda: x.cpu(), graph.replay):
                with pytest.raises(RuntimeError, match="waits for an ExternalEvent that nobody has recorded"):
                    forbidden()
            with torch.npu.stream(torch.npu.Stream()):
                event.record()
        assert same(z, (x + 1) * 2)


def test_an_event_recorded_in_another_thread_carries_the_replay_on():
    x, event = numbers(4), torch.npu.ExternalEvent()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        event.wait()
        event.reset()
        y = x * 2
    graph.replay()
    thread = threading.Thread(target=lambda: event.record(torch.npu.Stream()))
    thread.start()
    thread.join()
    assert same(y, x * 2)


torch.npu.register_npu_graph_handler(["graphs_test::partial_sums", "graphs_test::scaled"], OutHandler())


@pytest.mark.parametrize("replay_first", [False, True])
def test_update_issues_registered_calls_again(replay_first: bool):
    x = numbers(2, 6)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, auto_dispatch_capture=True):
        first = partial_sums(x + 1, lengths=[1, 1]) * 2
        second = partial_sums(x, lengths=[2, 2])
    assert graph.auto_dispatch_capture
    for new in ([{"lengths": [3, 4]}], [{"lengths": [5, 6]}, {"lengths": [0, 2]}]):
        x.add_(0.5)
        steps = [graph.replay, lambda new=new: graph.update(cpu_update_input=new)]
        for step in steps if replay_first else reversed(steps):
            step()
        assert same(first, sums(x + 1, new[0]["lengths"]) * 2)
        assert same(second, sums(x, new[-1]["lengths"]))
    with pytest.raises(ValueError, match=r"one dict for all 2 captured calls, or one for each; got 3"):
        graph.update(cpu_update_input=[{}] * 3)
    with pytest.raises(
        ValueError, match=r"graphs_test::partial_sums.out takes no argument 'sizes'; it takes \['x', 'lengths', 'out'\]"
    ):
        graph.update(cpu_update_input=[{"sizes": [1]}])


def test_updates_of_graphs_that_hold_no_such_call():
    graph = torch.npu.NPUGraph()
    text = "NPUGraph.update: the graph holds no call to update. Capture it with auto_dispatch_capture=True"
    with pytest.raises(RuntimeError, match=text):
        graph.update(cpu_update_input=[{"lengths": [1]}])
    with torch.npu.graph(graph):
        partial_sums(numbers(2, 6), lengths=[1, 1])
    with pytest.raises(RuntimeError, match=text):
        graph.update(cpu_update_input=[{"lengths": [1]}])


def test_results_that_a_schema_calls_out_without_saying_that_they_are_written():
    x = numbers(3)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph, auto_dispatch_capture=True):
        products, count = torch.ops.graphs_test.scaled(x + 1, [1, 2])
        y = products + count
    for by in ([4], [1, 2, 3]):
        graph.update([{"by": by}])
        graph.replay()
        assert same(y, (x + 1) * sum(by) + len(by))


def test_handlers_are_checked():
    with pytest.raises(TypeError, match="expected an NpuGraphOpHandler, got a int"):
        torch.npu.register_npu_graph_handler("aten::add.Tensor", 3)

    @torch.npu.register_npu_graph_handler(["graphs_test::none"])
    class Mine(torch.npu.NpuGraphOpHandler):
        pass

    assert issubclass(Mine, torch.npu.NpuGraphOpHandler)


# Graphed callables, and marks.


@pytest.mark.feature("3.10")
def test_graphed_callables_train_as_eager():
    def build() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).npu()

    eager, graphed = build(), build()
    sample = torch.randn(3, 4, device="npu", requires_grad=True)
    graphed = torch.npu.make_graphed_callables(graphed, (sample,))
    for seed in range(2):
        torch.manual_seed(seed)
        x = torch.randn(3, 4, device="npu")
        mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        results = graphed(mine), eager(theirs)
        assert same(*results)
        for result in results:
            result.square().sum().backward()
        assert same(mine.grad, theirs.grad)
        for a, b in zip(graphed.parameters(), eager.parameters(), strict=True):
            assert same(a.grad, b.grad)
            a.grad = b.grad = None
    graphed.eval()
    assert same(graphed(x[:1]), eager(x[:1]))


def test_graphed_functions_and_what_they_refuse():
    a, c, x = (numbers(4).requires_grad_() for _ in range(3))
    double, plus = torch.npu.make_graphed_callables(
        (lambda x: x * 2, lambda a, b: (a + b, a)), ((a,), (a.detach().clone().requires_grad_(), c))
    )
    y, _ = plus(double(x + 1), x)
    y.sum().backward()
    assert same(y, (x.detach() + 1) * 2 + x.detach()) and same(x.grad, torch.full((4,), 3.0))
    with pytest.raises(ValueError, match="sample_args hold tensors only, got a int"):
        torch.npu.make_graphed_callables(lambda x: x, (3,))
    with pytest.raises(ValueError, match="1 callables, but arguments for 2"):
        torch.npu.make_graphed_callables((lambda x: x,), ((x,), (x,)))


def test_scopes_of_super_kernels_compute_nothing():
    x = numbers(4)

    def fn(x: torch.Tensor) -> torch.Tensor:
        torch.npu.super_kernel_scope_begin("scope")
        y = x + 1
        torch.npu.super_kernel_scope_end("scope")
        return y

    graph, y = captured(lambda: fn(x))
    graph.super_kernel_optimize()
    graph.replay()
    assert same(y, fn(x))
    with torch.no_grad():
        assert same(torch.compile(fn, backend="npugraph_ex", fullgraph=True)(x), fn(x))
    marks = [node.name for node in npugraph.artifacts()[-1].to_fx("import").graph.nodes if "scope" in node.name]
    assert marks == ["super_kernel_scope_begin", "super_kernel_scope_end"]


# Every operator.


@pytest.mark.long
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("part", range(4))
def test_operators_of_the_database(part: int, dtype: torch.dtype):
    failed = {}
    for name in sorted(set(OPERATORS) - set(UNCOMPARED) - set(REFUSED))[part::4]:
        if dtype not in OPERATORS[name].supported_dtypes("cpu"):
            continue
        for sample in itertools.islice(samples(name, dtype), 3):
            try:
                compare_capture(OPERATORS[name], sample)
            except Exception as error:
                refused = ("the host cannot wait", "a graph cannot capture a tensor of ComplexFloat, Strided, lazily")
                if not any(text in str(error) for text in refused):
                    failed[name] = f"{type(error).__name__}: {error}"
    assert not failed, "\n".join(f"{name}: {text}" for name, text in failed.items())


def compare_capture(op: Any, sample: Any) -> None:
    """Random operators of the database set the seed 42 at each call. A capture refuses any seed but the one that is
    set, so the seed is 42 before it."""
    value, args, kwargs = given = to_npu((sample.input, sample.args, sample.kwargs))
    before = [one.clone() for one in tensors(given)]
    graph = torch.npu.NPUGraph()
    torch.npu.manual_seed(42)
    with torch.no_grad(), torch.npu.stream(torch.npu.Stream()):
        graph.capture_begin()
        try:
            results = op(value, *args, **kwargs)
            graph.capture_end()
        finally:
            graph.abandon()
        for one, other in zip(tensors(given), before, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
        torch.npu.manual_seed(42)
        graph.replay()
        expected = op(value, *args, **kwargs)
    for one, other in zip(tensors(results), tensors(expected), strict=True):
        torch.testing.assert_close(one.cpu(), other.cpu(), rtol=0, atol=0, equal_nan=True)
