# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/moe/attention_workers.cc and ffn_workers.cc: sizes and dtypes on meta, values of
those that need no other rank, and an error of the others, for which scripts may register kernels."""

from __future__ import annotations

import ctypes

import pytest
import torch
import torch_npu

from tests.python.device.captured_calls import capture, check_captured
from tests.python.device.npu_operators import integers, normal, tensors

INT = torch.int32


def meta(*size: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    return torch.empty(size, dtype=dtype, device="meta")


CALLS = [
    (torch_npu.attention_worker_scheduler, (meta(9),), [((9,), torch.int8)]),
    (torch_npu.attention_worker_scheduler_, (meta(9),), [((9,), torch.int8)]),
    (torch_npu.ffn_worker_scheduler, (meta(9),), [((9,), torch.int8)]),
    (torch_npu.ffn_worker_scheduler_, (meta(9),), [((9,), torch.int8)]),
    (
        torch_npu.npu_attention_worker_combine,
        (meta(9), meta(3, 2, dtype=torch.float32), meta(1, dtype=INT), 16),
        [((3, 16), torch.float16), ((1,), INT)],
    ),
    (
        torch_npu.npu_ffn_worker_batching,
        (meta(9), 4, [2, 3, 5, 16]),
        [
            *(((30, 16), torch.float16), ((4, 2), torch.int64)),
            *[((30,), INT)] * 4,
            *(((30,), torch.float32), ((1,), torch.int64)),
        ],
    ),
    (
        torch_npu.npu_attention_to_ffn,
        (
            meta(1, 3, 16, dtype=torch.float16),
            *[meta(1, dtype=INT)] * 3,
            meta(1, 3, 2, dtype=INT),
            meta(1, 4, 5, dtype=INT),
        )
        + ("ep", 4, [1, 2, 3], [1, 2, 3, 4, 16], [2, 3, 5], 4),
        [],
    ),
    (
        torch_npu.npu_ffn_to_attention,
        (meta(30, 16, dtype=torch.float16), *[meta(30, dtype=INT)] * 4, meta(1, dtype=torch.int64))
        + ("ep", 4, [2, 3, 5], [2, 3, 5, 16]),
        [],
    ),
]


COMPUTED = (torch_npu.npu_attention_worker_combine, torch_npu.npu_ffn_worker_batching)


@pytest.mark.parametrize(("op", "args", "results"), CALLS, ids=[str(op) for op, *_ in CALLS])
def test_results_on_meta_have_their_sizes_and_types(op, args, results) -> None:
    assert [(tuple(x.shape), x.dtype) for x in tensors(op(*args))] == results
    for device in () if op in COMPUTED else ("cpu", "npu"):
        real = [torch.zeros(x.shape, dtype=x.dtype, device=device) if isinstance(x, torch.Tensor) else x for x in args]
        with pytest.raises(NotImplementedError):
            op(*real)


class Memory(ctypes.Structure):
    _fields_ = (("address", ctypes.c_uint64), ("bytes", ctypes.c_uint64))

    @classmethod
    def of(cls, x: torch.Tensor) -> Memory:
        return cls(x.data_ptr(), x.nbytes)


class Common(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("sessions", "micro_batches", "tokens", "each", "experts")),
        *((name, ctypes.c_uint32) for name in ("to_ffn", "to_attention", "mode")),
        ("reserved", ctypes.c_int8 * 96),
    )


class Attention(ctypes.Structure):
    _fields_ = (
        ("info", Memory),
        ("data", Memory),
        ("micro_batch", ctypes.c_uint32),
        ("reserved", ctypes.c_int8 * 92),
    )


class Ffn(ctypes.Structure):
    _fields_ = (
        ("info", Memory),
        ("data", Memory),
        ("reserved_1", ctypes.c_int8 * 96),
        *((name, Memory) for name in ("layers", "session_ids", "micro_batch_ids", "expert_ids")),
        ("batches", ctypes.c_uint32),
        ("reserved", ctypes.c_int8 * 60),
    )


class Context(ctypes.Structure):
    _fields_ = (
        ("common", Common),
        ("control", ctypes.c_int8 * 128),
        ("attention", Attention),
        ("ffn", Ffn),
        ("reserved", ctypes.c_int8 * 384),
    )

    def tensor(self) -> torch.Tensor:
        assert ctypes.sizeof(self) == 1024
        return torch.frombuffer(bytearray(self), dtype=torch.int8).npu()


@pytest.mark.parametrize(("code", "dtype"), [(0, torch.float16), (1, torch.bfloat16), (torch.half, torch.half)])
def test_rows_of_experts_are_combined(code: int | torch.dtype, dtype: torch.dtype) -> None:
    """The third row of each token belongs to a shared expert. Rows have room for more values than are used."""
    data, flags = normal(2, 4, 3, 20, dtype=dtype).npu(), torch.ones(2, 4, 3, dtype=INT).npu()
    context = Context(common=Common(micro_batches=2, tokens=4, each=3, to_attention=40))
    context.attention = Attention(info=Memory.of(flags), data=Memory.of(data), micro_batch=1)
    scales, layer = normal(4, 2, seed=1), torch.tensor([6], dtype=INT)
    args = (context.tensor(), scales.npu(), layer.npu(), 16)
    rows = data[1, :, :, :16].cpu().double()
    want = (rows[:, :2] * scales.double()[..., None]).sum(1) + rows[:, 2]
    op = torch_npu.npu_attention_worker_combine
    for call in (op, torch.compile(lambda *args, **how: op(*args, **how), backend="npugraph_ex")):
        y, following = call(*args, token_dtype=code)
        assert y.dtype == dtype and following.tolist() == [7]
        torch.testing.assert_close(y.cpu().double(), want, rtol=1e-2, atol=1e-2)
    check_captured(op, (args, {"token_dtype": code}))
    graph, (y, _) = capture(lambda: op(*args, token_dtype=code, need_schedule=1))
    assert flags.all()  # only replays take rows, captures do not
    data.mul_(2)
    graph.replay()
    torch.testing.assert_close(y.cpu().double(), 2 * want, rtol=1e-2, atol=1e-2)
    assert flags[0].all() and not flags[1].any()
    missing = "need_schedule is 1, but of the 12 rows of micro batch 1 only 0 have come"
    for call in (graph.replay, lambda: op(*args, token_dtype=code, need_schedule=1)):
        with pytest.raises(RuntimeError, match=missing):
            call()


@pytest.mark.parametrize("code", [0, 2])
def test_rows_are_gathered_by_experts(code: int) -> None:
    """Rows come from three batches of two sessions. Expert 9 is not one of the four experts."""
    dtype, h = {0: torch.float16, 2: torch.int8}[code], 8
    values = normal(2, 3, 2, 2, h, dtype=dtype) if code == 0 else integers(-9, 9, 2, 3, 2, 2, h, dtype=dtype)
    scales = normal(2, 3, 2, 2, 1, seed=1)
    room = torch.zeros(2, 3, 2, 2, 4, dtype=torch.int8)
    data = torch.cat([values.view(torch.int8), scales.view(torch.int8), room], -1).npu()
    session, batch = (torch.tensor(x, dtype=INT) for x in ([1, 0, 1], [2, 0, 0]))
    experts = torch.tensor([[[3, 0], [0, 9]], [[2, 3], [0, 2]], [[3, 2], [9, 0]]], dtype=INT)
    kept = [session.npu(), batch.npu(), experts.npu()]
    context = Context(common=Common(sessions=2, micro_batches=3, tokens=2, each=2, experts=4, to_ffn=data.shape[-1]))
    names = ("session_ids", "micro_batch_ids", "expert_ids")
    context.ffn = Ffn(data=Memory.of(data), batches=3, **dict(zip(names, map(Memory.of, kept), strict=True)))
    call = ((context.tensor(), 4, [2, 4, 2, h]), {"token_dtype": code})
    check_captured(torch_npu.npu_ffn_worker_batching, call)
    y, groups, *where, scale, number = torch_npu.npu_ffn_worker_batching(*call[0], **call[1])
    chosen = sorted((int(experts[i, t, k]), i, t, k) for i in range(3) for t in range(2) for k in range(2))[:-2]
    assert number.tolist() == [10] and groups.tolist() == [[0, 4], [2, 3], [3, 3], [0, 0]]
    assert len(y) == len(scale) == 16 and not y[10:].any() and not scale[10:].any()
    places = [(int(session[i]), int(batch[i]), t, k) for _, i, t, k in chosen]
    assert list(zip(*(x[:10].tolist() for x in where), strict=True)) == places
    assert torch.equal(y[:10].cpu(), torch.stack([values[place] for place in places]))
    if code == 2:
        assert torch.equal(scale[:10].cpu(), torch.stack([scales[place][0] for place in places]))


def test_contexts_that_are_refused() -> None:
    """Memory in a context is checked before it is read."""
    scales, layer = torch.ones(4, 2).npu(), torch.zeros(1, dtype=INT).npu()
    context = Context(common=Common(micro_batches=1, tokens=4, each=2, to_attention=32))
    combine = torch_npu.npu_attention_worker_combine
    for memory, text in (
        (Memory(4096, 1 << 20), "token_data_buf of schedule_context is no memory of npu that is in use"),
        (Memory.of(torch.zeros(64, dtype=torch.int8).npu()), "token_data_buf of schedule_context has 64 bytes, and "),
    ):
        context.attention = Attention(data=memory)
        with pytest.raises(RuntimeError, match=f"npu_attention_worker_combine: {text}"):
            combine(context.tensor(), scales, layer, 16)
    with pytest.raises(RuntimeError, match="hidden_size is 17, and the rows of schedule_context have 32 bytes"):
        combine(context.tensor(), scales, layer, 17)
    with pytest.raises(RuntimeError, match="schedule_context has 9 bytes, and must have 1024"):
        combine(torch.zeros(9, dtype=torch.int8).npu(), scales, layer, 16)
    with pytest.raises(NotImplementedError, match="npu_ffn_worker_batching: need_schedule is 1, allowed is 0"):
        torch_npu.npu_ffn_worker_batching(context.tensor(), 4, [1, 4, 2, 8], need_schedule=1)


def test_written_arguments() -> None:
    for op in (torch_npu.attention_worker_scheduler_, torch_npu.ffn_worker_scheduler_):
        context = meta(9)
        assert op(context) is context


def test_codes_of_types_choose_the_type_of_results() -> None:
    args = CALLS[4][1]
    for code, dtype in enumerate((torch.float16, torch.bfloat16, torch.int8)):
        assert torch_npu.npu_ffn_worker_batching(*CALLS[5][1], token_dtype=code)[0].dtype == dtype
        if code < 2:
            assert torch_npu.npu_attention_worker_combine(*args, token_dtype=code)[0].dtype == dtype


def test_unknown_codes_of_types_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"npu_ffn_worker_batching: token_dtype is 3, allowed are \[0, 1, 2\]"):
        torch_npu.npu_ffn_worker_batching(meta(9), 4, [2, 3, 5, 16], token_dtype=3)
    with pytest.raises(RuntimeError, match=r"npu_attention_worker_combine: token_dtype is 2, allowed are \[0, 1, 5, "):
        torch_npu.npu_attention_worker_combine(*CALLS[4][1], token_dtype=2)


def test_calls_without_results_stay_in_graphs() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    for op in (torch.ops.npu.npu_attention_to_ffn, torch.ops.npu.npu_ffn_to_attention):
        graph.call_function(op.default, (x,))
    graph.output(x)
    graph.eliminate_dead_code()
    assert len(graph.find_nodes(op="call_function", target=torch.ops.npu.npu_attention_to_ffn.default)) == 1
    assert len(graph.find_nodes(op="call_function", target=torch.ops.npu.npu_ffn_to_attention.default)) == 1
