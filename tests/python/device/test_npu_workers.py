# SPDX-License-Identifier: Apache-2.0
"""Operators of src/torch/npu_ops/moe/attention_workers.cc and ffn_workers.cc: sizes and types on meta, and an error
where there are values; scripts may give them kernels."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import tensors

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


@pytest.mark.parametrize(("op", "args", "results"), CALLS, ids=[str(op) for op, *_ in CALLS])
def test_sizes(op, args, results) -> None:
    assert [(tuple(x.shape), x.dtype) for x in tensors(op(*args))] == results
    for device in ("cpu", "npu"):
        real = [torch.zeros(x.shape, dtype=x.dtype, device=device) if isinstance(x, torch.Tensor) else x for x in args]
        with pytest.raises(NotImplementedError):
            op(*real)


def test_written_arguments() -> None:
    for op in (torch_npu.attention_worker_scheduler_, torch_npu.ffn_worker_scheduler_):
        context = meta(9)
        assert op(context) is context


def test_types() -> None:
    args = CALLS[4][1]
    for code, dtype in enumerate((torch.float16, torch.bfloat16, torch.int8)):
        assert torch_npu.npu_ffn_worker_batching(*CALLS[5][1], token_dtype=code)[0].dtype == dtype
        if code < 2:
            assert torch_npu.npu_attention_worker_combine(*args, token_dtype=code)[0].dtype == dtype


def test_refused() -> None:
    with pytest.raises(RuntimeError, match=r"npu_ffn_worker_batching: token_dtype is 3, allowed are \[0, 1, 2\]"):
        torch_npu.npu_ffn_worker_batching(meta(9), 4, [2, 3, 5, 16], token_dtype=3)
    with pytest.raises(RuntimeError, match=r"npu_attention_worker_combine: token_dtype is 2, allowed are \[0, 1\]"):
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
