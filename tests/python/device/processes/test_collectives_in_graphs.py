# SPDX-License-Identifier: Apache-2.0
"""Collectives in compiled graphs, over gloo on cpu and hccl on npu, between two processes.

Functions without ``test_`` run in each process. Values are small whole numbers, so that all sums are exact.
"""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.distributed as dist
import torch_npu
from torch.distributed import _functional_collectives as functional
from torch.fx.experimental.proxy_tensor import make_fx

import npugraph
import npugraph_ex
from tests.python.device.ranks import Ranks

DEVICES = ["cpu", "npu"]
BACKEND = "cpu:gloo,npu:hccl"


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    ranks = Ranks(2, tmp_path_factory.mktemp("ranks"), BACKEND)
    yield ranks
    ranks.close()


def data(rank: int, *shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    return torch.randint(0, 6, shape, generator=generator).float()


def compiled_and_eager(function, *args: torch.Tensor, fullgraph: bool = True, **kwargs):
    """Returns the results and the arguments of a compiled and of an eager call. Every node of the compiled graph must
    be a task."""
    torch._dynamo.reset()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("error", npugraph.NpugraphWarning)
        compiled = torch.compile(function, backend="npugraph_ex", fullgraph=fullgraph, **kwargs)
        own, given = [[x.clone() for x in args] for _ in range(2)]
        results = [(run(*inputs), inputs) for run, inputs in ((compiled, own), (function, given))]
        for _ in range(2):
            torch.testing.assert_close(compiled(*(x.clone() for x in args)), results[0][0], rtol=0, atol=0)
    return results


def check_same(function, *args: torch.Tensor, **kwargs) -> None:
    own, given = compiled_and_eager(function, *args, **kwargs)
    torch.testing.assert_close(own, given, rtol=0, atol=0)


def operators() -> set[str]:
    return {task.name for artifact in npugraph.artifacts() for task in artifact.tasks if task.kind == "collective"}


def check_functional(device: str) -> None:
    group = dist.group.WORLD
    x = data(dist.get_rank(), 4, 3).to(device)

    def function(x):
        a = functional.all_reduce(x, "sum", group)
        b = functional.all_gather_tensor(x + 1, 0, group)
        c = functional.reduce_scatter_tensor(x * 2, "sum", 0, group)
        d = functional.all_to_all_single(x - 1, None, None, group)
        e = functional.broadcast(x.exp(), 1, group)
        f = functional.all_reduce_coalesced([x, x[0] + 3], "max", group)
        g = functional.all_gather_into_tensor_coalesced([x, x[0]], group)
        h = functional.reduce_scatter_tensor_coalesced([x, x.t().contiguous()[:2]], "sum", [0, 0], group)
        return [a * 2, b.sum(0), c + 1, d.neg(), e, *f, *g, *h, functional.all_gather_tensor(x.t(), 1, group)]

    check_same(function, x)
    names = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "wait"]
    assert operators() == {f"npugraph.{name}" for name in names}
    artifact = npugraph.artifacts()[-1]
    assert "2x npugraph.all_reduce: communicates with other processes" in artifact.explain()
    torch.testing.assert_close(artifact.to_fx()(x), tuple(function(x)))


@pytest.mark.feature("8.02")
@pytest.mark.parametrize("device", DEVICES)
def test_functional_collectives(ranks, device):
    ranks(check_functional, device)


def check_rewritten(device: str) -> None:
    rank = dist.get_rank()
    x = data(rank, 4, 3).to(device)

    def function(x):
        y = x + 1
        dist.all_reduce(y)
        gathered = x.new_empty(8, 3)
        dist.all_gather_into_tensor(gathered, x)
        scattered = x.new_empty(2, 3)
        dist.reduce_scatter_tensor(scattered, y)
        moved = torch.empty_like(x)
        dist.all_to_all_single(moved, y)
        parts = [torch.empty_like(x) for _ in range(2)]
        dist.all_gather(parts, x * 3)
        return y * 2, gathered, scattered, moved, parts

    check_same(function, x)
    check_same(lambda x: dist.all_reduce(x, dist.ReduceOp.MAX), x)  # writes its input


@pytest.mark.feature("8.01")
@pytest.mark.parametrize("device", DEVICES)
def test_collectives_that_write(ranks, device):
    ranks(check_rewritten, device)


def check_transfers(device: str) -> None:
    rank = dist.get_rank()
    x = data(rank, 4, 3).to(device)

    def function(x):
        y = x * 2
        dist.broadcast(y, 1)
        parts = [x.new_empty(2, 3), x.new_empty(2, 3)]
        dist.all_to_all(parts, [x[:2], x[2:]])
        z = torch.empty_like(x)
        if rank == 0:
            dist.send(x + 1, 1)
            dist.recv(z, 1)
        else:
            source = dist.recv(z, 0)
            dist.send(z + source, 0)
        return y + 1, parts, z * 2

    check_same(function, x)
    assert {"npugraph.broadcast", "npugraph.all_to_all", "npugraph.send", "npugraph.receive"} <= operators()


@pytest.mark.feature("8.01")
@pytest.mark.parametrize("device", DEVICES)
def test_broadcasts_and_transfers(ranks, device):
    ranks(check_transfers, device)


def check_in_place(device: str) -> None:
    """Functional collectives that write arguments, also inputs. Their graph does not come from Dynamo, since torch
    makes none of them functional. Also transfers, which Dynamo captures if its option is set."""
    rank = dist.get_rank()
    other, name = 1 - rank, dist.group.WORLD.group_name
    ops = torch.ops._c10d_functional
    x = data(rank, 4, 3).to(device)

    def function(x, z):
        y = x * 2
        a = ops.wait_tensor(ops.all_reduce_(y, "sum", name))
        b = [ops.wait_tensor(t) for t in ops.all_reduce_coalesced_([x + 3, x[0] + 1], "max", name)]
        c = ops.wait_tensor(ops.broadcast_(x - 1, 1, name))
        d, e = x.new_empty(8, 3), x.new_empty(2, 3)
        ops.wait_tensor(ops.all_gather_into_tensor_out(x, 2, name, out=d))
        ops.wait_tensor(ops.reduce_scatter_tensor_out(x, "sum", 2, name, out=e))
        ops.wait_tensor(ops.all_reduce_(z, "sum", name))
        return a + 1, b[0] * 2, b[1], c, d, e, y + z

    z, expected = x + 5, x + 5
    with torch.no_grad():
        compiled = npugraph_ex.compile_fx(make_fx(function, tracing_mode="fake")(x, z))
        torch.testing.assert_close(compiled(x, z), function(x, expected), rtol=0, atol=0)
    assert torch.equal(z, expected)
    names = {"all_reduce_", "broadcast_", "all_gather_into", "reduce_scatter_into", "wait"}
    assert {f"npugraph.{name}" for name in names} <= operators()

    def transfers(x, z):
        received = torch.empty_like(x)
        operations = [dist.P2POp(dist.irecv, received, other), dist.P2POp(dist.isend, x * 2, other)]
        operations += [dist.P2POp(dist.isend, x + 1, other), dist.P2POp(dist.irecv, z, other)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        return received + z

    with torch._dynamo.config.patch(enable_p2p_compilation=True):
        check_same(transfers, x, z)
    assert "npugraph.transfer" in operators()


@pytest.mark.feature("8.02")
@pytest.mark.parametrize("device", DEVICES)
def test_collectives_in_place(ranks, device):
    ranks(check_in_place, device)


def check_uneven(device: str) -> None:
    rank, rows = dist.get_rank(), [1, 3]
    x, piece = data(rank, 4, 2).to(device), data(rank, rows[rank], 2).to(device)

    def function(x, piece):
        gathered = x.new_empty(4, 2)
        torch_npu.distributed.all_gather_into_tensor_uneven(gathered, piece, rows)
        scattered = [x.new_empty(rows[rank], 2) for _ in range(2)]
        torch_npu.distributed.reduce_scatter_tensor_uneven(scattered[0], x, rows)
        torch_npu.distributed.reduce_scatter_tensor_uneven(scattered[1], x, rows, op=dist.ReduceOp.MAX)
        return gathered * 2, scattered

    torch._dynamo.reset()
    with torch.no_grad():
        gathered, scattered = torch.compile(function, backend="npugraph_ex", fullgraph=True)(x, piece)
    assert torch.equal(gathered.cpu(), 2 * torch.cat([data(i, rows[i], 2) for i in range(2)]))
    assert torch.equal(scattered[0].cpu(), sum(_all(4, 2)).split(rows)[rank])
    assert torch.equal(scattered[1].cpu(), torch.maximum(*_all(4, 2)).split(rows)[rank])


@pytest.mark.feature("8.01", "8.02")
@pytest.mark.parametrize("device", DEVICES)
def test_parts_of_different_sizes(ranks, device):
    ranks(check_uneven, device)


def check_of_ascend(device: str) -> None:
    """Operators with the names of Ascend, in graphs and in eager mode."""
    define, rank, other = torch.ops.npu_define, dist.get_rank(), 1 - dist.get_rank()
    group, rows = ("", [0, 1], 2), [1, 3]
    x, piece = data(rank, 4, 2).to(device), data(rank, rows[rank], 2).to(device)
    seen = []

    def function(x, piece):
        transfers = [lambda: define._send(x * 3, other, 7, *group), lambda: define._recv(x, other, 7, *group)]
        received = [transfer() for transfer in (transfers if rank == 0 else transfers[::-1])][1 - rank]
        return [
            *define.allgather(x + 1, *group),
            define.allgather_in_tensor(x.new_empty(2, 4, 2), x, *group),
            define._allgather_in_tensor_shape([4, 4], x, *group),
            define.allgather_in_tensor_uneven(piece, rows, *group),
            define.broadcast(x + 2, 1, *group),
            define.all_to_all_single_npu(x, None, None, *group),
            define.all_to_all_single_npu(x, [1 + 2 * rank] * 2, rows, *group),
            define.reduce_scatter_tensor_uneven(x, "max", rows, *group),
            received * 2,
        ]

    def look(gm, inputs, config):
        seen.extend(str(node.target) for node in gm.graph.nodes if "npu_define" in str(node.target))

    check_same(function, x, piece, options={"post_grad_custom_pre_pass": look})
    inputs, pieces = _all(4, 2), [data(i, rows[i], 2) for i in range(2)]
    parts = [y.split(2)[rank] for y in inputs], [y.split(rows)[rank] for y in inputs]
    wanted = [
        *(y + 1 for y in inputs),
        torch.stack(inputs),
        torch.cat(inputs).view(4, 4),
        torch.cat(pieces),
        inputs[1] + 2,
        torch.cat(parts[0]),
        torch.cat(parts[1]),
        torch.maximum(*parts[1]),
        inputs[other] * 6,
    ]
    for result, value in zip(function(x, piece), wanted, strict=True):
        assert torch.equal(result.cpu(), value)
    whole = ["_allgather_in_tensor_shape", "_recv", "_send", "all_to_all_single_npu", "allgather_in_tensor"]
    whole += ["allgather_in_tensor_uneven", "broadcast", "reduce_scatter_tensor_uneven"]
    assert sorted(set(seen)) == [f"npu_define.{name}.default" for name in whole]
    names = ["all_gather", "all_to_all", "broadcast", "send", "receive", "wait"]
    assert operators() == {f"npugraph.{name}" for name in names}
    with pytest.raises(ValueError, match=r"there is no process group with tag '' of the ranks \[0, 5\]"):
        define.broadcast(x, 0, "", [0, 5], 2)
    with pytest.raises(ValueError, match="there is no reduction 'band'; allowed are sum, avg, product, min, max"):
        define.reduce_scatter_tensor_uneven(x, "band", rows, *group)


@pytest.mark.feature("8.02", "10.01")
@pytest.mark.parametrize("device", DEVICES)
def test_operators_of_ascend(ranks, device):
    ranks(check_of_ascend, device)


BITWISE = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}


def check_reductions(device: str) -> None:
    """Each reduction computes its own operation in a graph."""
    inputs = [data(rank, 6).int() + 1 for rank in range(2)]
    meanings = {"SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum, **BITWISE}
    x = inputs[dist.get_rank()].to(device)

    def function(x):
        results = [x.clone() for _ in meanings]
        for result, name in zip(results, meanings, strict=True):
            dist.all_reduce(result, getattr(dist.ReduceOp, name))
        return results, functional.all_reduce(x, "bor", dist.group.WORLD)

    torch._dynamo.reset()
    with torch.no_grad():
        results, last = torch.compile(function, backend="npugraph_ex", fullgraph=True)(x)
    for result, meaning in zip(results, meanings.values(), strict=True):
        assert torch.equal(result.cpu(), meaning(*inputs))
    assert torch.equal(last.cpu(), torch.bitwise_or(*inputs))


@pytest.mark.feature("8.04", "12b.8")
@pytest.mark.parametrize("device", DEVICES)
def test_reductions_are_what_they_are_called(ranks, device):
    ranks(check_reductions, device)


def check_refusals() -> None:
    x = data(dist.get_rank(), 4)

    def asynchronous(x):
        y = x + 1
        work = dist.all_reduce(y, async_op=True)
        work.wait()
        return y * 2

    def run(function, x, **options):
        torch._dynamo.reset()
        with torch.no_grad():
            return torch.compile(function, backend="npugraph_ex", **options)(x)

    with pytest.raises(torch._dynamo.exc.Unsupported, match="async_op=True"):
        run(asynchronous, x, fullgraph=True)
    assert torch.equal(run(asynchronous, x), asynchronous(x))  # the graph breaks here
    with pytest.raises(ValueError, match="there is no reduction 'median'; allowed are sum, avg, "):
        run(lambda x: functional.all_reduce(x, "median", dist.group.WORLD), x)
    with pytest.raises(ValueError, match="complex tensors have the reductions sum and avg, got max"):
        run(lambda x: functional.all_reduce(x, "max", dist.group.WORLD), x.to(torch.complex64))
    assert torch.equal(run(lambda x: functional.all_reduce(x, "sum", dist.group.WORLD) + 1, x), sum(_all(4)) + 1)


def _all(*shape: int) -> list[torch.Tensor]:
    return [data(rank, *shape) for rank in range(2)]


@pytest.mark.feature("8.03")
def test_what_collectives_in_graphs_refuse(ranks):
    ranks(check_refusals)


def check_overlap(device: str) -> None:
    """Tasks that do not need the result run between the two tasks of a collective."""
    group = dist.group.WORLD
    x = data(dist.get_rank(), 64, 64).to(device)

    def function(x):
        a = functional.all_reduce(x, "sum", group)
        b = torch.sort(x)[0] @ x
        c = functional.all_gather_tensor(b, 0, group)
        return (a + b).sum(), c.sum(), torch.cumsum(b, 0)

    check_same(function, x)
    names = [task.name for task in npugraph.artifacts()[-1].tasks]
    with npugraph.task_log() as log, torch.no_grad():
        torch.compile(function, backend="npugraph_ex")(x)
    begin, end = names.index("npugraph.all_reduce"), names.index("npugraph.wait")
    assert any("sort" in name for name in names[begin:end])
    gathered = names.index("npugraph.all_gather")
    assert gathered < [i for i, name in enumerate(names) if name == "npugraph.wait"][-1]
    text = str(log)
    assert text.index("npugraph.all_reduce") < text.index("sort") < text.index("npugraph.wait")


@pytest.mark.feature("8.07")
@pytest.mark.parametrize("device", DEVICES)
def test_computation_beside_collectives(ranks, device):
    ranks(check_overlap, device)


def check_capture() -> None:
    """A compiled function with a collective, in a forked stream of a captured graph, communicates at each replay."""
    torch._dynamo.reset()
    x = data(dist.get_rank(), 4).npu()
    side = torch.npu.Stream()
    compiled = torch.compile(
        lambda x: functional.all_reduce(x * 2, "sum", dist.group.WORLD) + 1, backend="npugraph_ex", fullgraph=True
    )
    with torch.no_grad():
        compiled(x)
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            doubled = x * 2
            side.wait_stream(torch.npu.current_stream())
            with torch.npu.stream(side):
                summed = compiled(doubled)
            torch.npu.current_stream().wait_stream(side)
            result = summed - 1
        for scale in (1, 3):
            x.copy_(data(dist.get_rank(), 4) * scale)
            with npugraph.task_log() as log:
                graph.replay()
            assert torch.equal(result.cpu(), 4 * scale * sum(_all(4)))
            names = [record.name for record in log]
            assert names[0] == "aten.mul.Tensor" and names[-1] == "aten.sub.Tensor"
            assert names[2:4] == ["npugraph.all_reduce", "npugraph.wait"]


def replays(graph: torch.npu.NPUGraph, x: torch.Tensor, results: list[torch.Tensor], wanted) -> None:
    """Checks that replays compute the results of ``wanted`` for the inputs of all ranks."""
    for seed in (1, 2):
        inputs = [data(rank, *x.shape, seed=seed) for rank in range(2)]
        x.copy_(inputs[dist.get_rank()])
        graph.replay()
        for result, value in zip(results, wanted(inputs), strict=True):
            assert torch.equal(result.cpu(), value), (seed, result, value)


def check_eager_collectives() -> None:
    rank = dist.get_rank()
    x = data(rank, 4, 3).npu()
    graph = torch.npu.NPUGraph()
    given = x.clone()
    with torch.npu.graph(graph):
        total = x * 2
        dist.all_reduce(total)
        gathered = x.new_empty(8, 3)
        dist.all_gather_into_tensor(gathered, x)
        scattered = x.new_empty(2, 3)
        dist.reduce_scatter_tensor(scattered, total, dist.ReduceOp.MAX)
        sent = x + 1
        dist.broadcast(sent, 1)
        moved = torch.empty_like(x)
        dist.all_to_all_single(moved, x.t().contiguous().t())
        parts = [torch.empty_like(x) for _ in range(2)]
        dist.all_gather(parts, x * 3)
        piece = x.new_empty(3)
        dist.reduce_scatter(piece, [x[0], x[1]])
        dist.barrier()
        root = x.clone()
        dist.reduce(root, 0)
        functions = functional.all_reduce(x, "sum", dist.group.WORLD) + 1
        result = gathered.sum(0) @ total.t()
    assert torch.equal(x, given)

    def wanted(inputs):
        total, rows = sum(inputs), [x.split(2) for x in inputs]
        return [
            total * 2,
            torch.cat(inputs),
            total.split(2)[rank] * 2,
            inputs[1] + 1,
            torch.cat([row[rank] for row in rows]),
            inputs[0] * 3,
            inputs[1] * 3,
            total[rank],
            total if rank == 0 else inputs[1],
            total + 1,
            torch.cat(inputs).sum(0) @ (total * 2).t(),
        ]

    results = [total, gathered, scattered, sent, moved, *parts, piece, root, functions, result]
    replays(graph, x, results, wanted)


def check_eager_transfers() -> None:
    rank = dist.get_rank()
    other = 1 - rank
    x = data(rank, 4).npu()
    graph, both = torch.npu.NPUGraph(), x.new_empty(3, 4)
    with torch.npu.graph(graph):
        works = [dist.irecv(both[0], other), dist.isend(x * 2, other)]
        both[2].copy_(x)  # while the transfer is under way
        for work in works:
            work.wait()
        operations = [dist.P2POp(dist.irecv, both[1], other), dist.P2POp(dist.isend, both[0], other)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        result = both + 1
    replays(graph, x, [result], lambda inputs: [torch.stack([inputs[other] * 2, inputs[rank] * 2, inputs[rank]]) + 1])


def check_eager_asynchronous() -> None:
    """A collective that has begun runs beside later tasks, also in another stream, until somebody waits for it or needs
    its result."""
    rank = dist.get_rank()
    x = data(rank, 4, 4).npu()
    side = torch.npu.Stream()
    weight = data(5, 4, 4).npu()
    graph = torch.npu.NPUGraph()
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x * 3, backend="npugraph_ex", fullgraph=True)
    with torch.no_grad():
        compiled(x)
    with torch.no_grad(), torch.npu.graph(graph):
        y = x @ weight
        work = dist.all_reduce(y, async_op=True)
        beside = x @ x
        tripled = compiled(x)  # a Program of its own
        work.wait()
        z = y @ weight
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            gathered = x.new_empty(8, 4)
            work = dist.all_gather_into_tensor(gathered, x, async_op=True)
        work.wait()  # joins the other stream
        last = x.clone()
        dist.all_reduce(last, async_op=True)  # nobody waits for it
        future = dist.all_reduce(first := x.clone(), async_op=True).get_future()
        doubled = first * 2  # needs the result
    future.wait()

    def wanted(inputs):
        w, total = data(5, 4, 4), sum(inputs)
        own = inputs[rank]
        return [total @ w @ w, own @ own, own * 3, torch.cat(inputs), total, total * 2]

    replays(graph, x, [z, beside, tripled, gathered, last, doubled], wanted)


def check_failing_replay() -> None:
    """A replay that fails while a collective is under way leaves nothing behind."""
    rank = dist.get_rank()
    x, at = data(rank, 4).npu(), torch.tensor([1]).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        total = x * 2
        work = dist.all_reduce(total, async_op=True)
        picked = x[at]
        work.wait()
        result = total + picked
    for _ in range(2):
        graph.replay()
        assert torch.equal(result.cpu(), 2 * sum(_all(4)) + data(rank, 4)[1])
        at.fill_(50)
        with pytest.raises(IndexError, match="index 50 is out of bounds"):
            graph.replay()
        at.fill_(1)


def check_illegal() -> None:
    x, group = data(dist.get_rank(), 4).npu(), dist.new_group(backend="hccl")

    def refused(text: str, function) -> None:
        graph = torch.npu.NPUGraph()
        with pytest.raises((RuntimeError, NotImplementedError), match=text), torch.npu.graph(graph):
            function()
        y = x.clone()
        dist.all_reduce(y)
        assert torch.equal(y.cpu(), sum(_all(4)))

    objects = [None, None]
    read = "of cpu that is not pinned: the host cannot wait for a stream that is being captured"
    refused(read, lambda: dist.all_gather_object(objects, {"rank": 0}, group))
    refused("hccl:recv_any_source: the host cannot wait", lambda: dist.recv(x))

    def in_a_task_group():
        stream = torch.npu.current_stream()
        torch.npu.graph_task_group_begin(stream)
        try:
            dist.all_reduce(x)
        finally:
            torch.npu.graph_task_group_end(stream)

    refused("hccl.all_reduce: a collective cannot be part of a task group", in_a_task_group)
    refused(r"the output must have 4 \* 2 elements, got 4", lambda: dist.all_gather_into_tensor(x.clone(), x))
    dist.destroy_process_group(group)


def check_destroyed() -> None:
    x, group = data(dist.get_rank(), 4).npu(), dist.new_group(backend="hccl")
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        dist.all_reduce(x.clone(), group=group)
    name = group.group_name
    dist.destroy_process_group(group)
    del group
    text = f"hccl:all_reduce: the graph was captured with the process group '{name}', which was destroyed; capture it"
    with pytest.raises(RuntimeError, match=text):
        graph.replay()


def test_eager_collectives_of_a_captured_graph(ranks):
    ranks(check_eager_collectives)
    ranks(check_eager_transfers)
    ranks(check_eager_asynchronous)
    ranks(check_failing_replay)
    ranks(check_illegal)
    ranks(check_destroyed)


@pytest.mark.feature("8.06")
def test_collectives_in_a_captured_side_stream(ranks):
    ranks(check_capture)


def check_error(device: str) -> None:
    """A task that fails while a collective is under way leaves nothing behind."""
    x = data(dist.get_rank(), 50, 50).to(device)

    def function(x, i):
        total = functional.all_reduce(x, "sum", dist.group.WORLD)
        return total + x[i].sum() * 3

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="npugraph_ex", fullgraph=True)
    good, bad = (torch.tensor([i], device=device) for i in (1, 5000))
    with torch.no_grad():
        for _ in range(3):
            assert torch.equal(compiled(x, good), sum(_all(50, 50)).to(device) + x[1].sum() * 3)
            with pytest.raises(IndexError, match="index 5000 is out of bounds"):
                compiled(x, bad)
    names = [task.name for task in npugraph.artifacts()[-1].tasks]
    assert any("index" in name for name in names[: names.index("npugraph.wait")])


@pytest.mark.parametrize("device", DEVICES)
def test_errors_beside_collectives(ranks, device):
    ranks(check_error, device)


def check_sizes(dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: functional.all_gather_tensor(x * 2, 0, dist.group.WORLD) + 1, backend="npugraph_ex", dynamic=dynamic
    )
    for rows in (2, 3, 5):
        with torch.no_grad():
            result = compiled(data(dist.get_rank(), rows, 3))
        assert torch.equal(result, torch.cat(_all(rows, 3)) * 2 + 1)
    counters = [artifact.counters for artifact in npugraph.artifacts()]
    assert sum(c["compiles"] for c in counters) == (1 if dynamic else 3)
    assert sum(c["captures"] for c in counters) == 3


@pytest.mark.feature("1.24")
@pytest.mark.parametrize("dynamic", [True, False])
def test_sizes_on_ranks(ranks, dynamic):
    ranks(check_sizes, dynamic)


class Reduced(torch.nn.Module):
    """Sums over all ranks, and takes maxima over the ranks of a group."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        super().__init__()
        self.group = group
        self.weight = torch.nn.Parameter(data(5, 4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x @ self.weight
        dist.all_reduce(y)
        return y + functional.all_reduce(x, "max", self.group)


def check_restart(folder: str, device: str, is_first: bool) -> None:
    """After a restart groups have other names, and some do not exist."""
    if not is_first:
        dist.new_group([1])
        dist.new_group([0])
    group = dist.new_group([0, 1])
    rank = dist.get_rank()
    x = data(rank, 2, 4).to(device)
    model = Reduced(group).to(device)
    torch._dynamo.reset()
    torch._dynamo.utils.counters["npugraph_ex"].clear()
    function = npugraph_ex.inference.cache_compile(model.forward, cache_dir=folder)
    with torch.no_grad():
        assert torch.equal(function(x), model(x))
    found = torch._dynamo.utils.counters["npugraph_ex"]
    assert (found["compiles"], found["inference_cache_hits"]) == ((1, 0) if is_first else (0, 1)), dict(found)
    path = f"{folder}/{device}{rank}.npugraph"
    if is_first:
        npugraph.artifacts()[-1].save(path)
    else:
        dist.destroy_process_group(group)
    loaded = npugraph.load(path, model)
    with torch.no_grad():
        result = loaded(x)[0]
    y = sum(part @ model.weight.cpu() for part in _all(2, 4))
    assert torch.equal(result.cpu(), y + torch.maximum(*_all(2, 4)))


@pytest.mark.feature("5.08", "8.05", "12e.9")
def test_groups_of_a_restart(ranks, tmp_path, tmp_path_factory):
    for device in DEVICES:
        ranks(check_restart, str(tmp_path), device, is_first=True)
    again = Ranks(2, tmp_path_factory.mktemp("again"), BACKEND)
    try:
        for device in DEVICES:
            again(check_restart, str(tmp_path), device, is_first=False)
    finally:
        again.close()
    path = str(tmp_path / "cpu0.npugraph")
    with pytest.raises(ValueError, match=r"the process group '\d+' of ranks \[0, 1\]: call .*init_process_group first"):
        npugraph.load(path)


class Layers(torch.nn.Module):
    """Has six parameters. The backward pass averages each gradient over all ranks."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            weight, bias = (SummedGradient.apply(p) for p in (layer.weight, layer.bias))
            x = torch.tanh(torch.nn.functional.linear(x, weight, bias))
        return x


class SummedGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, parameter):
        return parameter.view_as(parameter)

    @staticmethod
    def backward(ctx, gradient):
        return functional.all_reduce(gradient, "sum", dist.group.WORLD) / dist.get_world_size()


def check_bucketed(device: str) -> None:
    torch._dynamo.reset()
    rank, size = dist.get_rank(), dist.get_world_size()
    x = data(0, 8, 8) / 6
    net, alone = Layers().to(device), Layers()
    compiled = torch.compile(net, backend="npugraph_ex", fullgraph=True)
    for _ in range(2):
        compiled(x.chunk(size)[rank].to(device)).square().mean().backward()
    backward = next(a for a in npugraph.artifacts() if a.name.endswith("backward"))
    reduces = [task for task in backward.tasks if task.name == "npugraph.all_reduce"]
    assert len(reduces) == 1 < len(list(net.parameters()))
    with npugraph.task_log() as log:
        compiled(x.chunk(size)[rank].to(device)).square().mean().backward()
    assert str(log).count("npugraph.all_reduce") == 1
    for layer in alone.layers:
        x = torch.tanh(layer(x))
    x.square().mean().backward()
    for own, wanted in zip(net.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(own.grad.cpu(), 3 * wanted.grad)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_travel_together(ranks, device):
    ranks(check_bucketed, device)
