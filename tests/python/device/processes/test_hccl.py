# SPDX-License-Identifier: Apache-2.0
"""Collectives and transfers of the backend hccl against their definitions, between two processes.

Functions without ``test_`` run in each process. Values are small whole numbers, so that sums of all types are exact.
"""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
from functools import reduce as fold
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import torch_npu
from torch._C import _distributed_c10d as c10d
from torch.distributed import ReduceOp

from tests.python.device.ranks import Ranks

REDUCED = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16),
    *(torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool),
]
MOVED = [torch.float32, torch.bfloat16, torch.int16, torch.bool, torch.float8_e4m3fn, torch.complex64]
MEANINGS = {
    "SUM": torch.add,
    "PRODUCT": torch.mul,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}
BITWISE = {"BAND", "BOR", "BXOR"}


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    ranks = Ranks(2, tmp_path_factory.mktemp("ranks"))
    yield ranks
    ranks.close()


def data(rank: int, *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Returns the data of a rank, on cpu."""
    generator = torch.Generator().manual_seed(1000 * seed + rank)
    values = torch.randint(0, 6, shape, generator=generator)
    return values.remainder(2).bool() if dtype == torch.bool else values.to(dtype)


def everywhere(*shape: int, **kwargs) -> list[torch.Tensor]:
    """Returns the data of all ranks, on cpu."""
    return [data(rank, *shape, **kwargs) for rank in range(dist.get_world_size())]


def reduced(tensors: list[torch.Tensor], op: str) -> torch.Tensor:
    """Computes a reduction by its definition."""
    dtype = tensors[0].dtype
    if op == "AVG":
        total = fold(torch.add, tensors)
        return total.div(len(tensors), rounding_mode=None if dtype.is_floating_point else "trunc").to(dtype)
    if dtype == torch.bool:
        logical = {"SUM": torch.logical_or, "PRODUCT": torch.logical_and, "MIN": torch.logical_and}
        return fold(logical.get(op, {**MEANINGS, "MAX": torch.logical_or}[op]), tensors)
    return fold(MEANINGS[op], tensors)


def operations(dtype: torch.dtype) -> list[str]:
    names = [*MEANINGS] if not dtype.is_floating_point else [name for name in MEANINGS if name not in BITWISE]
    return names if dtype == torch.bool else [*names, "AVG"]


def same(actual: torch.Tensor, wanted: torch.Tensor) -> None:
    assert actual.device.type == "npu"
    assert actual.dtype == wanted.dtype and actual.shape == wanted.shape
    view = (lambda t: t.cpu().view(torch.uint8)) if actual.dtype == torch.float8_e4m3fn else torch.Tensor.cpu
    assert torch.equal(view(actual), view(wanted)), (actual, wanted)


def check_reductions(dtype: torch.dtype) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for seed, name in enumerate(operations(dtype)):
        op = getattr(ReduceOp, name)
        mine = data(rank, 2 * size, 3, dtype=dtype, seed=seed).npu()
        total = reduced(everywhere(2 * size, 3, dtype=dtype, seed=seed), name)

        x = mine.clone()
        assert dist.all_reduce(x, op) is None
        same(x, total)
        x = mine.clone()
        dist.reduce(x, size - 1, op)
        same(x, total if rank == size - 1 else mine)
        out = torch.zeros(2, 3, dtype=dtype, device="npu")
        dist.reduce_scatter_tensor(out, mine, op)
        same(out, total.chunk(size)[rank])
        out = torch.zeros(2, 3, dtype=dtype, device="npu")
        dist.reduce_scatter(out, list(mine.chunk(size)), op)
        same(out, total.chunk(size)[rank])
        same(mine, data(rank, 2 * size, 3, dtype=dtype, seed=seed))


@pytest.mark.parametrize("dtype", REDUCED, ids=str)
def test_reductions_follow_their_definitions_in_every_type(ranks, dtype):
    ranks(check_reductions, dtype)


def check_moves(dtype: torch.dtype) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    all_data = everywhere(2 * size, 3, dtype=dtype)
    mine = all_data[rank].npu()
    empty = lambda: torch.zeros(2 * size, 3, dtype=torch.uint8, device="npu").to(dtype)  # noqa: E731

    x = mine.clone()
    dist.broadcast(x, size - 1)
    same(x, all_data[size - 1])
    outs = [empty() for _ in range(size)]
    dist.all_gather(outs, mine)
    for out, wanted in zip(outs, all_data, strict=True):
        same(out, wanted)
    out = torch.stack([empty()] * size).flatten(0, 1)
    dist.all_gather_into_tensor(out, mine)
    same(out, torch.cat(all_data))
    outs = [empty() for _ in range(size)] if rank == 0 else None
    dist.gather(mine, outs)
    for out, wanted in zip(outs or [], all_data if rank == 0 else [], strict=True):
        same(out, wanted)
    out = empty()
    dist.scatter(out, [(t * 1 if t.dtype != torch.bool else t).npu() for t in all_data] if rank == 1 else None, src=1)
    same(out, all_data[rank])

    pieces = [tensor.chunk(size)[rank] for tensor in all_data]
    out = empty()
    dist.all_to_all_single(out, mine)
    same(out, torch.cat(pieces))
    outs = [torch.zeros_like(piece, device="npu") for piece in pieces]
    dist.all_to_all(outs, list(mine.chunk(size)))
    for out, wanted in zip(outs, pieces, strict=True):
        same(out, wanted)


@pytest.mark.parametrize("dtype", [d for d in MOVED if d != torch.float8_e4m3fn], ids=str)
def test_moved_data_arrives_unchanged_in_every_type(ranks, dtype):
    ranks(check_moves, dtype)


def check_float8() -> None:
    rank = dist.get_rank()
    x = torch.tensor([1.0, 2.0 + rank]).to(torch.float8_e4m3fn).npu()
    out = torch.zeros(4, dtype=torch.uint8, device="npu").view(torch.float8_e4m3fn)
    dist.all_gather_into_tensor(out, x)
    same(out, torch.tensor([1.0, 2.0, 1.0, 3.0]).to(torch.float8_e4m3fn))


def test_bytes_move_whatever_they_mean(ranks):
    ranks(check_float8)


def check_uneven() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    rows = [1, 3]
    total = sum(everywhere(4, 2))
    out = torch.empty(rows[rank], 2, device="npu")
    torch_npu.distributed.reduce_scatter_tensor_uneven(out, data(rank, 4, 2).npu(), input_split_sizes=rows)
    same(out, total.split(rows)[rank])
    out = torch.empty(rows[rank], 2, device="npu")
    work = torch_npu.distributed.reduce_scatter_tensor_uneven(
        out, data(rank, 4, 2).npu(), rows, op=ReduceOp.AVG, async_op=True
    )
    work.wait()
    same(out, total.split(rows)[rank] / size)

    pieces = [data(i, rows[i], 2) for i in range(size)]
    out = torch.empty(4, 2, device="npu")
    torch_npu.distributed.all_gather_into_tensor_uneven(out, pieces[rank].npu(), output_split_sizes=rows)
    same(out, torch.cat(pieces))
    outs = [torch.empty(rows[i], 2, device="npu") for i in range(size)]
    dist.all_gather(outs, pieces[rank].npu())
    for out, wanted in zip(outs, pieces, strict=True):
        same(out, wanted)

    sends = [[1, 2], [0, 3]]  # from rank to rank
    inputs = [data(i, sum(sends[i]), 2) for i in range(size)]
    wanted = torch.cat([inputs[i].split(sends[i])[rank] for i in range(size)])
    received = [sends[i][rank] for i in range(size)]
    out = torch.empty(sum(received), 2, device="npu")
    dist.all_to_all_single(out, inputs[rank].npu(), received, sends[rank])
    same(out, wanted)
    outs = [torch.empty(n, 2, device="npu") for n in received]
    dist.all_to_all(outs, [piece.npu() for piece in inputs[rank].split(sends[rank])])
    same(torch.cat(outs), wanted)
    out = torch.empty(sum(received) * 2, device="npu")
    counts = [2 * n for row in sends for n in row]
    torch_npu.distributed.all_to_all_vc(out, inputs[rank].npu(), counts)
    same(out.view(-1, 2), wanted)


def test_pieces_of_different_sizes(ranks):
    ranks(check_uneven)


def check_operators_that_take_groups() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.group.WORLD._get_backend(torch.device("npu")).boxed()
    rows, ops = [1, 3], torch.ops.npu
    pieces = [data(i, rows[i], 2) for i in range(size)]

    def finish(work) -> None:
        dist.Work.unbox(work).wait()

    out = torch.empty(4, 2, device="npu")
    finish(ops.wrap_allgather_base_uneven_inner(out, pieces[rank].npu(), rows, group, 1000))
    same(out, torch.cat(pieces))
    out = torch.empty(rows[rank], 2, device="npu")
    add = torch.classes.c10d.ReduceOp()
    finish(ops.wrap_reduce_scatter_base_uneven_inner(out, data(rank, 4, 2).npu(), rows, group, add, 1000))
    same(out, sum(everywhere(4, 2)).split(rows)[rank])
    out = torch.empty(4, device="npu")
    counts = [2, 1, 2, 3]  # from 0 to 0, from 0 to 1, ...
    finish(ops.wrap_alltoallvc_inner(out, data(rank, 5)[: 3 + 2 * rank].npu(), counts, group, 0))
    sent = [data(i, 5)[: 3 + 2 * i].split(counts[2 * i : 2 * i + 2]) for i in range(size)]
    same(out, torch.cat([one[rank] for one in sent]))
    there, here = data(rank, 3).npu(), torch.empty(3, device="npu")
    other = 1 - rank
    finish(ops.wrap_batch_isend_irecv_inner([there, here], ["isend", "irecv"], [other, other], group))
    same(here, data(other, 3))

    with pytest.raises(RuntimeError, match=r"output_tensor must be 2 numbers that add up to its 4 rows, got \[1, 1\]"):
        ops.wrap_allgather_base_uneven_inner(torch.empty(4, 2, device="npu"), there, [1, 1], group, 0)
    with pytest.raises(RuntimeError, match="the 3 rows of input_tensor cannot be split evenly over 2 ranks"):
        ops.wrap_reduce_scatter_base_uneven_inner(here, there, [], group, add, 0)
    with pytest.raises(RuntimeError, match="send_count_matrix must have 4 counts, got 1"):
        ops.wrap_alltoallvc_inner(here, there, [3], group, 0)
    with pytest.raises(RuntimeError, match="op_type has 'send', allowed are isend and irecv"):
        ops.wrap_batch_isend_irecv_inner([there], ["send"], [other], group)
    with pytest.raises(RuntimeError, match="takes as many tensors as op_type and remote_rank_list have"):
        ops.wrap_batch_isend_irecv_inner([there], ["isend"], [0, 1], group)


def test_operators_that_take_groups(ranks):
    ranks(check_operators_that_take_groups)


def check_strides() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    total = sum(everywhere(4, 6))
    x = data(rank, 4, 6).npu()
    transposed, gaps = x.t().contiguous().t(), torch.zeros(4, 12, device="npu")
    gaps[:, ::2] = x
    for view in (transposed, gaps[:, ::2]):
        dist.all_reduce(view)
        same(view, total)
    assert not gaps[:, 1::2].any()
    out = torch.zeros(6, 4 * size, device="npu").t()
    dist.all_gather_into_tensor(out, x.t().contiguous().t())
    same(out, torch.cat(everywhere(4, 6)))
    nothing = torch.empty(0, device="npu")
    dist.all_reduce(nothing)
    dist.all_to_all_single(nothing, torch.empty(0, device="npu"))
    scalar = torch.tensor(2.0, device="npu")
    dist.all_reduce(scalar)
    same(scalar, torch.tensor(4.0))


def test_tensors_with_gaps_and_without_elements(ranks):
    ranks(check_strides)


def check_async() -> None:
    rank = dist.get_rank()
    x = data(rank, 50_000).npu()
    y = x.to("npu:1")
    total = sum(everywhere(50_000))
    work = dist.all_reduce(x, async_op=True)
    later = dist.all_reduce(x, async_op=True)  # reduces the result of the first, without a wait
    other = dist.all_reduce(y, ReduceOp.MAX, async_op=True)
    doubled = work.get_future().then(lambda future: [tensor.device for tensor in future.value()])
    assert later.wait() and other.wait(datetime.timedelta(seconds=100))
    assert work.is_completed() and later.is_completed() and later.is_success() and work.wait()
    same(x, 2 * total)
    assert y.device == torch.device("npu:1")
    same(y, fold(torch.maximum, everywhere(50_000)))
    assert doubled.wait() == [torch.device("npu:0")]
    assert later.get_future().done() and later.get_future().value()[0].data_ptr() == x.data_ptr()
    out = [torch.empty(2, device="npu") for _ in range(2)]
    work = dist.all_gather(out, torch.full((2,), float(rank), device="npu"), async_op=True)
    assert [tensor.data_ptr() for tensor in work.get_future().wait()] == [tensor.data_ptr() for tensor in out]
    assert torch.equal(torch.cat(out).cpu(), torch.tensor([0.0, 0.0, 1.0, 1.0]))
    assert dist.barrier(async_op=True, device_ids=[0]).wait()


def test_handles_and_order(ranks):
    ranks(check_async)


def check_transfers() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % size, (rank - 1) % size
    mine, out = data(rank, 1000, 40).npu(), torch.zeros(1000, 40, device="npu:1")
    ops = [dist.P2POp(dist.irecv, out, left), dist.P2POp(dist.isend, mine, right)]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    same(out, data(left, 1000, 40))

    received = torch.zeros(3, 4, dtype=torch.bfloat16, device="npu").t()
    if rank == 0:
        dist.send(data(0, 4, 3, dtype=torch.bfloat16).npu(), 1, tag=7)
        dist.send(torch.tensor([True, False], device="npu"), 1, tag=8)
    elif rank == 1:
        last = torch.zeros(2, dtype=torch.bool, device="npu")
        waiting = dist.irecv(last, 0, tag=8)  # receives what is sent last
        dist.recv(received, 0, tag=7)
        same(received, data(0, 4, 3, dtype=torch.bfloat16))
        assert waiting.wait() and last.tolist() == [True, False]
        assert waiting.is_completed() and waiting.get_future().wait()[0].data_ptr() == last.data_ptr()
    anything = torch.zeros(2, device="npu")
    if rank == 0:
        assert dist.recv(anything) == 1
        same(anything, torch.ones(2))
    elif rank == 1:
        dist.send(torch.ones(2, device="npu"), 0)


def test_transfers_arrive_by_their_tags_and_sources(ranks):
    ranks(check_transfers)


def check_coalesced() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    shapes = [(2, 3), (4,)]
    tensors = [data(rank, *shape).npu() for shape in shapes]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor, shape in zip(tensors, shapes, strict=True):
        same(tensor, sum(everywhere(*shape)))
    tensors = [data(rank, 2 * size).npu(), data(rank, 4 * size).npu()]
    gathered = [torch.empty(t.numel() * size, device="npu") for t in tensors]
    with dist._coalescing_manager(async_ops=True) as works:
        for out, tensor in zip(gathered, tensors, strict=True):
            dist.all_gather_into_tensor(out, tensor)
    works.wait()
    pieces = [torch.empty(t.numel() // size, device="npu") for t in tensors]
    with dist._coalescing_manager(device=torch.device("npu"), async_ops=True) as works:
        for out, tensor in zip(pieces, tensors, strict=True):
            dist.reduce_scatter_tensor(out, tensor)
    works.wait()
    for out, piece, rows in zip(gathered, pieces, (2 * size, 4 * size), strict=True):
        same(out, torch.cat(everywhere(rows)))
        same(piece, sum(everywhere(rows)).chunk(size)[rank])
    group = dist.group.WORLD
    lists = [[torch.empty(3, device="npu"), torch.empty(1, device="npu")] for _ in range(size)]
    group.allgather_coalesced(lists, [data(rank, 3).npu(), data(rank, 1).npu()]).wait()
    for i, (a, b) in enumerate(lists):
        same(a, data(i, 3))
        same(b, data(i, 1))


def test_coalesced_collectives_give_what_single_ones_give(ranks):
    ranks(check_coalesced)


def check_objects() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank})
    assert gathered == [{"rank": i} for i in range(size)]
    objects = ["one", 2] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects, 0, device=torch.device("npu"))
    assert objects == ["one", 2]
    own = [None]
    dist.scatter_object_list(own, [f"for {i}" for i in range(size)] if rank == 0 else None, 0)
    assert own == [f"for {rank}"]
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank, gathered)
    assert rank != 0 or gathered == list(range(size))
    if rank == 0:
        dist.send_object_list(["hello"], 1)
    elif rank == 1:
        received = [None]
        dist.recv_object_list(received, 0)
        assert received == ["hello"]


def test_python_objects_reach_their_ranks(ranks):
    ranks(check_objects)


def check_groups() -> None:
    rank, npu = dist.get_rank(), torch.device("npu")
    options = torch_npu._C._distributed_c10d.ProcessGroupHCCL.Options()
    options.hccl_config = {"hccl_buffer_size": 200, "hccl_algo": "ring", "qos": 0.5}
    options.op_timeout = datetime.timedelta(seconds=9)
    pair = dist.new_group([0, 1], backend="hccl", pg_options=options, timeout=datetime.timedelta(seconds=60))
    backend = pair._get_backend(npu)
    assert isinstance(backend, torch_npu._C._distributed_c10d.ProcessGroupHCCL)
    assert backend.options.hccl_config == options.hccl_config and options.group_id == ""
    assert backend.options.global_ranks_in_group == [0, 1] and backend.options.backend == "hccl"
    assert backend.options.op_timeout == options.op_timeout and not backend.options.is_high_priority_stream
    assert backend.options._timeout == datetime.timedelta(seconds=60)
    name = backend.get_hccl_comm_name(rank)
    assert name == pair.group_name == backend.options.group_id != dist.group.WORLD.group_name
    mixed = dist.new_group([0, 1], backend="cpu:gloo,npu:hccl")
    for tensor in (torch.ones(1), torch.ones(1, device="npu")):
        dist.all_reduce(tensor, group=mixed)
        assert tensor.item() == 2
    x = torch.ones(2, device="npu")
    halves = dist.split_group(split_ranks=[[0], [1]])
    dist.all_reduce(x, group=halves)
    assert halves.size() == 1 and halves._get_backend(npu).get_hccl_comm_name(0) == halves.group_name
    together = dist.split_group(split_ranks=[[0, 1]])
    dist.all_reduce(x, group=together)
    assert x.tolist() == [2, 2]
    alone = dist.new_group([1], backend="lccl")
    if rank == 1:
        dist.all_reduce(x, group=alone)
        assert x.tolist() == [2, 2]
    for group in (pair, mixed, together, halves):
        dist.destroy_process_group(group)


def test_groups_have_their_own_options_and_members(ranks):
    ranks(check_groups)


def message_of(call, *args, **kwargs) -> str:
    with pytest.raises(RuntimeError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


def check_refusals() -> list[str]:
    x, whole = torch.ones(3, device="npu"), torch.ones(3, dtype=torch.int32, device="npu")
    return [
        message_of(dist.all_reduce, x, ReduceOp.BAND),
        message_of(dist.all_reduce, torch.ones(3, dtype=torch.float8_e5m2, device="npu")),
        message_of(dist.all_reduce, torch.ones(3, dtype=torch.bool, device="npu"), ReduceOp.AVG),
        message_of(dist.all_reduce, x, dist._make_nccl_premul_sum(2.0)),
        message_of(dist.all_to_all_single, x, x),
        message_of(dist.all_to_all_single, x, x, [1, 2], [1, 1]),
        message_of(dist.group.WORLD.alltoall_base, x, x, [1, 2, 0], [1, 2], c10d.AllToAllOptions()),
        message_of(dist.group.WORLD.reduce_scatter, [x], [[x]], c10d.ReduceScatterOptions()),
        message_of(dist.group.WORLD._allgather_base, whole, x, c10d.AllgatherOptions()),
        message_of(dist.group.WORLD._allgather_base, x, x, c10d.AllgatherOptions()),
        message_of(dist.group.WORLD.gather, [[x, torch.ones(2, device="npu")]], [x], c10d.GatherOptions())
        if dist.get_rank() == 0
        else "",
    ]


def test_refused_calls_say_what_is_allowed(ranks):
    texts, _ = ranks(check_refusals)
    wanted = [
        "hccl:all_reduce: BAND is for integers and bool, got Float",
        "hccl:all_reduce: reduces bool, uint8, int8, int16, int32, int64, float16, bfloat16, float32 and float64, got "
        "Float8_e5m2",
        "hccl:all_reduce: tensors of bool have no average",
        "hccl:all_reduce: reduce operations are SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR and BXOR, got PREMUL_SUM",
        "hccl:all_to_all_single: the 3 rows of output cannot be split evenly over 2 ranks; pass split sizes",
        "hccl:all_to_all_single: split sizes of input must add up to its 3 rows, got 2",
        "hccl:all_to_all_single: takes 2 split sizes of output, got 3",
        "hccl:reduce_scatter: takes a list of 2 tensors, got 1",
        "hccl:all_gather_into_tensor: output and input must have one type, got Int and Float",
        "hccl:all_gather_into_tensor: the output must have 3 * 2 elements, got 3",
        "hccl:gather: tensor 1 of the list must have the 3 elements of this rank's tensor, got 2",
    ]
    for text, start in zip(texts, wanted, strict=True):
        assert text.startswith(start)


def check_uneven_refusals() -> None:
    x = torch.ones(3, device="npu")
    with pytest.raises(ValueError, match="the 3 rows of input cannot be split evenly over 2 ranks"):
        torch_npu.distributed.reduce_scatter_tensor_uneven(x, x)
    wanted = "output_split_sizes must be 2 numbers that add up to the 3 rows of output, got [1, 1]"
    with pytest.raises(ValueError, match=re.escape(wanted)):
        torch_npu.distributed.all_gather_into_tensor_uneven(x, x, [1, 1])
    with pytest.raises(ValueError, match="send_count_matrix must have 4 counts, got 2"):
        torch_npu.distributed.all_to_all_vc(x, x, [1, 2])
    with pytest.raises(TypeError, match=re.escape("pg_options must be ProcessGroupHCCL.Options, got dict")):
        dist.new_group([0, 1], backend="hccl", pg_options={})


def test_refusals_of_python(ranks):
    ranks(check_uneven_refusals)


def check_timeout() -> str:
    group = dist.new_group([0, 1], backend="hccl", timeout=datetime.timedelta(milliseconds=300))
    x = torch.ones(2, device="npu")
    text = ""
    if dist.get_rank() == 0:  # the other rank does not come
        work = dist.all_reduce(x, group=group, async_op=True)
        with pytest.raises(dist.DistBackendError, match=re.escape("hccl:all_reduce: not done after 10 ms of wait()")):
            work.wait(datetime.timedelta(milliseconds=10))
        with pytest.raises(dist.DistBackendError) as caught:
            work.wait()
        text = str(caught.value)
        assert work.is_completed() and not work.is_success()
        with pytest.raises(dist.DistBackendError):
            work.get_future().wait()
        with pytest.raises(dist.DistBackendError, match="hccl:recv"):
            dist.recv(x, 1, group=group)
    dist.barrier()
    torch_npu.distributed.reinit_process_group(group)
    dist.all_reduce(x, group=group)
    assert x.tolist() == [2, 2]
    return text


def test_a_rank_that_does_not_come(ranks):
    text, _ = ranks(check_timeout)
    assert re.search(r"hccl:all_reduce \(call 1 of group '\w+', rank 0 of 2, timeout 300 ms\) failed", text)
    assert "not every rank has come to this call" in text


def check_destroyed_transfers() -> None:
    group = dist.new_group([0, 1], backend="hccl")
    waiting = dist.irecv(torch.ones(2, device="npu"), 1 - dist.get_rank(), group=group)
    dist.destroy_process_group(group)
    with pytest.raises(dist.DistBackendError, match="hccl:recv"):
        waiting.wait()


def test_transfers_end_with_their_group(ranks):
    ranks(check_destroyed_transfers)


def check_slow_connection(key: str) -> None:
    """Rank 1 connects slowly, and notes when it is connected. Before that no rank may have the group and destroy it."""
    store = dist.distributed_c10d._get_default_store()
    connect = dist.ProcessGroupGloo

    def slowly(*args, **kwargs):
        gloo = connect(*args, **kwargs)
        store.set(key, "")
        return gloo

    with mock.patch.object(dist, "ProcessGroupGloo", slowly if dist.get_rank() == 1 else connect):
        group = dist.new_group([0, 1], backend="hccl")
    assert store.check([key])
    dist.destroy_process_group(group)


def test_groups_are_connected_on_all_ranks(ranks):
    for attempt in range(5):
        ranks(check_slow_connection, f"connected {attempt}")


def test_one_process_without_a_backend_name(monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    for backend in (None, "hccl"):
        dist.init_process_group(backend)
        try:
            assert isinstance(
                dist.group.WORLD._get_backend(torch.device("npu")), torch_npu._C._distributed_c10d.ProcessGroupHCCL
            )
            x = torch.arange(3.0, device="npu")
            dist.all_reduce(x)
            out = torch.empty(3, device="npu")
            dist.all_gather_into_tensor(out, x)
            dist.reduce_scatter_tensor(out, x)
            dist.all_to_all_single(out, x)
            same(out, torch.arange(3.0))
        finally:
            dist.destroy_process_group()


def test_names_of_hccl_are_registered_with_torch():
    assert dist.is_hccl_available() and torch_npu.distributed.is_hccl_available()
    assert torch_npu.distributed.is_available()
    assert dist.Backend.HCCL == "hccl" and dist.get_default_backend_for_device("npu") == "hccl"
    assert torch.utils.checkpoint.DefaultDeviceType.get_device_type() == "npu"
    from torch_npu.distributed import fsdp, run
    from torch_npu.distributed.tensor import experimental

    assert fsdp.fully_shard is not None and run.parse_args is not None and experimental.context_parallel is not None


@pytest.mark.long
def test_four_ranks(tmp_path):
    ranks = Ranks(4, tmp_path)
    for dtype in (torch.float32, torch.bfloat16, torch.int16):
        ranks(check_reductions, dtype)
        ranks(check_moves, dtype)
    ranks(check_transfers)
    ranks(check_coalesced)
    ranks(check_objects)
    ranks.close()


UNFINISHED = """
import sys
import torch
import torch.distributed as dist
import torch_npu

rank = int(sys.argv[1])
store = dist.FileStore(sys.argv[2], 2)
dist.init_process_group("hccl", store=store, rank=rank, world_size=2, device_id=torch.device("npu", 0))
x, y = torch.ones(1 << 14).npu(), torch.ones(4, 4).npu()
graph = torch.npu.NPUGraph()
with torch.npu.graph(graph):
    dist.all_reduce(y @ y)
graph.replay()
works = [dist.all_reduce(x, async_op=True) for _ in range(5)]
last = dist.all_reduce(torch.ones(1 << 18).npu(), async_op=True).get_future().then(lambda f: f.value()[0].sum())
dist.irecv(torch.empty(4).npu(), 1 - rank)  # which nobody sends
"""


def test_scripts_may_end_with_work_under_way(tmp_path):
    """Threads of a group need the interpreter when their work is done: for callbacks, and to drop objects."""
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", UNFINISHED, str(rank), str(tmp_path / "store")],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    ends = [(process.communicate()[1], process.returncode) for process in processes]
    assert ends == [("", 0), ("", 0)]
