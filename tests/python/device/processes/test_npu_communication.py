# SPDX-License-Identifier: Apache-2.0
"""Operators that multiply and communicate: one process against their definitions, and two processes against one.

Functions without ``test_`` run in each process.
"""

from __future__ import annotations

import re

import pytest
import torch
import torch.distributed as dist
import torch_npu

from tests.python.device.npu_operators import check, check_close, integers, normal, with_fakes
from tests.python.device.ranks import Ranks

NO_OBSERVER = "hcom"  # the group of the one rank if there is no process group


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    ranks = Ranks(2, tmp_path_factory.mktemp("ranks"))
    yield ranks
    ranks.close()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_mm_all_reduce_of_one_rank(dtype):
    x1, x2, bias, x3 = (normal(*size, dtype=dtype) for size in ((2, 3, 4), (4, 5), (5,), (2, 3, 5)))
    reference = lambda x1, x2, hcom, bias=None, x3=None: x1 @ x2 + bias + x3  # noqa: E731
    check(torch_npu.npu_mm_all_reduce_base, (x1, x2, NO_OBSERVER), reference, whole=True, bias=bias, x3=x3)


def test_mm_all_reduce_of_integers():
    x1, x2 = integers(-9, 9, 3, 4, dtype=torch.int8), integers(-9, 9, 4, 5, dtype=torch.int8)
    bias = integers(-50, 50, 5, dtype=torch.int32)
    scale, rows = normal(5).abs() * 0.01, normal(3).abs()

    def reference(x1, x2, hcom, *, dequant_scale, bias=None, pertoken_scale=None, y_dtype=None):
        if dequant_scale.dtype == torch.int64:
            dequant_scale = dequant_scale.to(torch.int32).view(torch.float32).double()
        out = (x1.double() @ x2.double() + (0 if bias is None else bias)) * dequant_scale
        return out if pertoken_scale is None else out * pertoken_scale[:, None]

    op = torch_npu.npu_mm_all_reduce_base
    check(op, (x1, x2, NO_OBSERVER), reference, whole=True, bias=bias, dequant_scale=scale, pertoken_scale=rows)
    assert op(x1, x2, NO_OBSERVER, dequant_scale=scale).dtype == torch.float16
    check(op, (x1, x2, NO_OBSERVER), reference, whole=True, dequant_scale=scale.bfloat16(), y_dtype=torch.bfloat16)
    bits = scale.view(torch.int32).to(torch.int64)
    check(op, (x1, x2, NO_OBSERVER), reference, whole=True, dequant_scale=bits)


@pytest.mark.parametrize("group", [0, 2])
def test_mm_all_reduce_with_integer_weights(group):
    x1, x2 = normal(3, 4, dtype=torch.float16), integers(-9, 9, 4, 5, dtype=torch.int8)
    size = (2, 5) if group else (5,)
    scale, offset = normal(*size, dtype=torch.float16), normal(*size, dtype=torch.float16, seed=1)

    def reference(x1, x2, hcom, antiquant_scale, antiquant_offset, antiquant_group_size):
        if group:
            antiquant_scale, antiquant_offset = (
                t.repeat_interleave(group, 0) for t in (antiquant_scale, antiquant_offset)
            )
        return x1 @ ((x2 + antiquant_offset) * antiquant_scale)

    options = {"antiquant_scale": scale, "antiquant_offset": offset, "antiquant_group_size": group}
    check(torch_npu.npu_mm_all_reduce_base, (x1, x2, NO_OBSERVER), reference, whole=True, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_products_of_one_rank(dtype):
    x1, x2, bias = normal(4, 6, dtype=dtype), normal(6, 2, dtype=dtype), normal(2, dtype=dtype)
    reference = lambda x1, x2, hcom, ranks, bias: x1 @ x2 + bias  # noqa: E731
    check(torch_npu.npu_mm_reduce_scatter_base, (x1, x2, NO_OBSERVER, 1), reference, whole=True, bias=bias)
    check(torch_npu.npu_matmul_all_to_all, (x1, x2, NO_OBSERVER, 1), reference, whole=True, bias=bias)
    both = lambda x1, x2, hcom, ranks, bias: (x1 @ x2 + bias, x1)  # noqa: E731
    check(torch_npu.npu_all_gather_base_mm, (x1, x2, NO_OBSERVER, 1), both, whole=True, bias=bias)
    check(torch_npu.npu_all_to_all_matmul, (x1, x2, NO_OBSERVER, 1), both, whole=True, bias=bias)
    empty = torch_npu.npu_all_gather_base_mm(x1, x2, NO_OBSERVER, 1, gather_output=False)[1]
    assert empty.numel() == 0
    assert torch_npu.npu_all_to_all_matmul(x1, x2, NO_OBSERVER, 1, all2all_out_flag=False)[1].numel() == 0
    check(torch_npu._npu_distribute_barrier, (x1, NO_OBSERVER, 1), lambda x1, group, ranks: x1, whole=True)


def test_scaled_products_of_one_rank():
    x1, x2 = integers(-9, 9, 4, 6, dtype=torch.int8), integers(-9, 9, 6, 2, dtype=torch.int8)
    scales = {"x1_scale": normal(4, 1), "x2_scale": normal(1, 2)}

    def product(x1, x2, hcom, ranks, x1_scale, x2_scale, **_):
        return x1.double() @ x2.double() * x1_scale * x2_scale

    check(torch_npu.npu_mm_reduce_scatter_base, (x1, x2, NO_OBSERVER, 1), product, whole=True, **scales)
    quantised = torch_npu.npu_quant_mm_reduce_scatter
    with_none = lambda *args, **kwargs: (product(*args, **kwargs), None)  # noqa: E731
    check(quantised, (x1, x2, NO_OBSERVER, 1), with_none, whole=True, **scales, y_dtype=torch.bfloat16)
    gathered = lambda *args, **kwargs: (product(*args, **kwargs), args[0], None)  # noqa: E731
    check(torch_npu.npu_all_gather_quant_mm, (x1, x2, NO_OBSERVER, 1), gathered, whole=True, **scales)


def test_types_of_scaled_products_of_one_rank():
    """int8 times a float32 scale is bfloat16, unlike times an encoded one; what is not int8 is float16."""
    x1, x2 = integers(-9, 9, 4, 6, dtype=torch.int8), integers(-9, 9, 6, 2, dtype=torch.int8)
    rows, encoded = torch.ones(4, 1), torch.ones(2).view(torch.int32).long()
    gather = torch_npu.npu_all_gather_base_mm, torch_npu.npu_all_gather_quant_mm
    ops = [*gather, torch_npu.npu_mm_reduce_scatter_base, torch_npu.npu_quant_mm_reduce_scatter]
    for op in [*ops, torch_npu.npu_all_to_all_quant_matmul]:
        for scale, want in ((torch.ones(2), torch.bfloat16), (encoded, torch.float16)):
            for device in ("cpu", "meta"):
                given = {"x1_scale": rows.to(device), "x2_scale": scale.to(device)}
                got = op(x1.to(device), x2.to(device), NO_OBSERVER, 1, **given)
                assert (got if isinstance(got, torch.Tensor) else got[0]).dtype == want, op
    small = [x.to(torch.float8_e4m3fn) for x in (x1, x2)]
    assert gather[1](*small, NO_OBSERVER, 1, x1_scale=rows, x2_scale=torch.ones(2))[0].dtype == torch.float16


def test_experts_of_one_rank():
    x, weight, shared = normal(7, 4), normal(2, 4, 3), normal(4, 5)
    counts = [3, 4]

    def product(x, weight, *_, mm_x=None, mm_weight=None, **__):
        pieces = [piece @ weight[i] for i, piece in enumerate(x.split(counts))]
        return torch.cat(pieces), None if mm_x is None else mm_x @ mm_weight

    args = (x, weight, NO_OBSERVER, 1, counts, counts)
    check(torch_npu.npu_gmm_alltoallv, args, product, whole=True, mm_x=x, mm_weight=shared)
    there = lambda *args, **kwargs: (*product(*args, **kwargs), args[0])  # noqa: E731
    check(torch_npu.npu_alltoallv_gmm, args, there, whole=True, permute_out_flag=True)
    turned = lambda x, weight, *_, **__: product(x, weight.mT)  # noqa: E731
    args = (x, weight.mT.contiguous(), NO_OBSERVER, 1, counts, counts)
    check(torch_npu.npu_gmm_alltoallv, args, turned, whole=True, trans_gmm_weight=True)


def test_scaled_exchanges_of_one_rank():
    x1, x2 = integers(-9, 9, 4, 6, dtype=torch.int8), integers(-9, 9, 6, 2, dtype=torch.int8)
    product = lambda x1, x2, *_, x1_scale, x2_scale: x1.double() @ x2.double() * x1_scale[:, None] * x2_scale  # noqa: E731
    scales = {"x1_scale": normal(4), "x2_scale": normal(2)}
    check(torch_npu.npu_quant_matmul_all_to_all, (x1, x2, NO_OBSERVER, 1), product, whole=True, **scales)
    assert torch_npu.npu_quant_matmul_all_to_all(x1, x2, NO_OBSERVER, 1, **scales).dtype == torch.float32

    x, weight = integers(-9, 9, 7, 4, dtype=torch.int8), integers(-9, 9, 2, 4, 3, dtype=torch.int8)
    x_scale, scale, counts = torch.tensor([0.5]), torch.tensor([0.25, 3.0]), [3, 4]

    def experts(x, weight, x_scale, scale, *_, **__):
        pieces = [x_scale * scale[i] * (piece.double() @ weight[i].double()) for i, piece in enumerate(x.split(counts))]
        return torch.cat(pieces), None

    args = (x, weight, x_scale, scale, NO_OBSERVER, 1, counts, counts, torch.bfloat16)
    check(torch_npu.npu_quant_gmm_alltoallv, args, experts, whole=True)
    there = lambda *args, **_: (*experts(*args), args[0])  # noqa: E731
    check(torch_npu.npu_alltoallv_quant_gmm, args, there, whole=True, permute_out_flag=True)
    shared = {"mm_x": x, "mm_weight": weight[0], "mm_x_scale": torch.tensor(0.5), "mm_weight_scale": normal(3)}
    sizes = {"mm_y_dtype": torch.float32}
    mm_y = lambda mm_x, mm_weight, mm_x_scale, mm_weight_scale, mm_y_dtype: (  # noqa: E731
        mm_x.double() @ mm_weight.double() * mm_x_scale * mm_weight_scale
    )
    both = lambda *args, **kwargs: (experts(*args)[0], mm_y(**kwargs))  # noqa: E731
    check(torch_npu.npu_quant_gmm_alltoallv, args, both, whole=True, **shared, **sizes)
    all_three = lambda *args, **kwargs: (*both(*args, **kwargs), None)  # noqa: E731
    check(torch_npu.npu_alltoallv_quant_gmm, args, all_three, whole=True, **shared, **sizes)
    with pytest.raises(RuntimeError, match=r"^npu_quant_gmm_alltoallv: mm_x and mm_weight come together"):
        torch_npu.npu_quant_gmm_alltoallv(*args, mm_x=x)
    with pytest.raises(NotImplementedError, match="gmm_x_scale must be one number on the host, got 2"):
        torch_npu.npu_quant_gmm_alltoallv(x, weight, scale, *args[3:])
    with pytest.raises(NotImplementedError, match="gmm_weight_scale must be one number, or one for each expert"):
        torch_npu.npu_alltoallv_quant_gmm(x, weight, x_scale, torch.ones(3), *args[4:])


def rounded_rows(x: torch.Tensor) -> torch.Tensor:
    """Returns rows after rounding to int8, as floating-point numbers."""
    scale = x.abs().amax(1, keepdim=True) / 127
    return (x / scale).round() * scale


def test_all_to_all_quant_matmul_of_one_rank():
    x2, scale = integers(-9, 9, 6, 2, dtype=torch.int8), normal(2)
    op = torch_npu.npu_all_to_all_quant_matmul
    small, rows = integers(-9, 9, 4, 6, dtype=torch.int8), normal(4)
    reference = lambda x1, x2, *_, x1_scale, x2_scale: (x1.double() @ x2.double() * x1_scale[:, None] * x2_scale, x1)  # noqa: E731
    check(op, (small, x2, NO_OBSERVER, 1), reference, whole=True, x1_scale=rows, x2_scale=scale)
    exact = normal(4, 6, dtype=torch.bfloat16)
    rounding = lambda x1, x2, *_, x2_scale, bias: (rounded_rows(x1) @ x2.double() * x2_scale + bias, x1)  # noqa: E731
    check(op, (exact, x2, NO_OBSERVER, 1), rounding, whole=True, x2_scale=scale, bias=normal(2, seed=1))
    assert op(exact, x2, NO_OBSERVER, 1, all2all_out_flag=False)[1].numel() == 0
    y = op(exact, x2, NO_OBSERVER, 1, x1_quant_dtype=torch.float8_e4m3fn, y_dtype=torch.float32)[0]
    torch.testing.assert_close(y, exact.float() @ x2.float(), rtol=0.1, atol=2.0)
    refused = [
        ((exact, x2), {"x1_scale": rows}, "x1_scale of an x1 that is not quantised is not supported on the host"),
        ((small, x2), {"x1_scale": normal(3)}, "x1_scale must be one number, or one for each of the 4 rows of the"),
        ((small, x2[:5]), {}, "x2 must have 6 rows, got 5"),
        ((small, x2), {"x1_offset": rows}, "an offset is not supported on the host"),
    ]
    for args, kwargs, text in refused:
        with pytest.raises(RuntimeError, match=f"^npu_all_to_all_quant_matmul: {text}"):
            op(*args, NO_OBSERVER, 1, **kwargs)


def inputs(rank: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return normal(4, 6, seed=rank), normal(6, 4, seed=10 + rank), normal(4, seed=20 + rank)


def check_two_ranks() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    hcom = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
    everything = [tuple(t.double() for t in inputs(i)) for i in range(size)]
    x1, x2, bias = (t.npu() for t in inputs(rank))
    total = sum(a @ b + c for a, b, c in everything)
    own = everything[rank]

    def close(got, *want):
        check_close(
            [t.cpu() for t in got] if isinstance(got, (tuple, list)) else got.cpu(),
            list(want) if len(want) > 1 else want[0],
        )

    close(torch_npu.npu_mm_all_reduce_base(x1, x2, hcom, bias=bias), total)
    close(torch_npu._npu_distribute_barrier(x1, hcom, size), own[0])
    close(torch_npu.npu_mm_reduce_scatter_base(x1, x2, hcom, size, bias=bias), total.chunk(size)[rank])
    rows = torch.cat([a for a, _, _ in everything])
    close(torch_npu.npu_all_gather_base_mm(x1, x2, hcom, size, bias=bias), rows @ own[1] + own[2], rows)
    scale = torch.arange(1.0, 5.0) * (rank + 1)
    scales = torch.cat([torch.arange(1.0, 5.0) * (i + 1) for i in range(size)])
    y, _ = torch_npu.npu_all_gather_base_mm(x1, x2, hcom, size, x1_scale=scale.npu())
    close(y, (rows @ own[1]) * scales[:, None])
    y, _ = torch_npu.npu_all_gather_base_mm(x1[:1], x2, hcom, size, x1_scale=scale[:1].npu())  # of one row
    first = torch.cat([a[:1] for a, _, _ in everything])
    close(y, (first @ own[1]) * torch.arange(1.0, size + 1)[:, None])

    weight = normal(6 * size, 3, seed=5)
    wide = torch.cat([a.chunk(size)[rank] for a, _, _ in everything], 1)
    close(
        torch_npu.npu_all_to_all_matmul(x1, weight.npu(), hcom, size, bias[:3]),
        wide @ weight.double() + own[2][:3],
        wide,
    )
    pieces = [(a @ b + c).chunk(size, 1)[rank] for a, b, c in everything]
    close(torch_npu.npu_matmul_all_to_all(x1, x2, hcom, size, bias), torch.cat(pieces))


def check_compiled() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    hcom = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
    everything = [inputs(i)[:2] for i in range(size)]
    compiled = torch.compile(lambda a, b: torch_npu.npu_mm_all_reduce_base(a, b, hcom) * 2, backend="npugraph_ex")
    with torch.no_grad():
        y = compiled(*(t.npu() for t in everything[rank]))
    check_close(y.cpu(), 2 * sum(a.double() @ b.double() for a, b in everything))


def test_two_ranks(ranks):
    ranks(check_two_ranks)
    ranks(check_compiled)


def test_results_of_fake_tensors(ranks):
    for function in (check_two_ranks, check_quantised_exchanges, check_experts, check_quantised_experts):
        ranks(with_fakes, function)


def check_quantised_exchanges() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    hcom = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
    whole = lambda *sizes, seed: integers(-9, 9, *sizes, dtype=torch.int8, seed=seed)  # noqa: E731
    exact, small = [normal(4, 6, seed=i) for i in range(size)], [whole(4, 6, seed=i) for i in range(size)]
    weight, scale = whole(6 * size, 3, seed=5 + rank), normal(3, seed=rank)
    op = torch_npu.npu_all_to_all_quant_matmul
    wide = torch.cat([t.chunk(size)[rank] for t in exact], 1).double()
    y, rows = op(exact[rank].npu(), weight.npu(), hcom, size, x2_scale=scale.npu())
    check_close((y.cpu(), rows.cpu()), (rounded_rows(wide) @ weight.double() * scale, wide))
    wide, by_row = torch.cat([t.chunk(size)[rank] for t in small], 1), normal(2, seed=3)
    kwargs = {"x1_scale": by_row.npu(), "x2_scale": scale.npu(), "y_dtype": torch.float32}
    y, rows = op(small[rank].npu(), weight.npu(), hcom, size, **kwargs)
    check_close((y.cpu(), rows.cpu()), (wide.double() @ weight.double() * by_row[:, None] * scale, wide))

    by_column = normal(1, 4, seed=8)
    columns = [whole(6, 2 * size, seed=9 + i) for i in range(size)]
    args = (small[rank].npu(), columns[rank].npu(), hcom, size)
    back = torch_npu.npu_quant_matmul_all_to_all(*args, y_dtype=torch.float32)
    pieces = [(a.double() @ b.double()).chunk(size, 1)[rank] for a, b in zip(small, columns, strict=True)]
    check_close(back.cpu(), torch.cat(pieces))

    shared, rows = whole(6, 4, seed=15), [normal(4, 1, seed=16 + i) for i in range(size)]
    how = {"x1_scale": rows[rank].npu(), "x2_scale": by_column.npu(), "y_dtype": torch.float32}
    args = (small[rank].npu(), shared.npu(), hcom, size)
    products = [a.double() @ shared.double() * r * by_column for a, r in zip(small, rows, strict=True)]
    y, gathered, _ = torch_npu.npu_all_gather_quant_mm(*args, **how)
    check_close((y.cpu(), gathered.cpu()), (torch.cat(products), torch.cat(small)))
    y, _ = torch_npu.npu_quant_mm_reduce_scatter(*args, **how)
    check_close(y.cpu(), sum(products).chunk(size)[rank])


def test_quantised_exchanges(ranks):
    ranks(check_quantised_exchanges)


def check_experts() -> None:
    """Rows go to experts of all ranks and come back. Each row is multiplied by its expert's weight twice."""
    rank, size, experts = dist.get_rank(), dist.get_world_size(), 2
    hcom = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
    counts = [[1, 2, 0, 3], [2, 1, 1, 0]]  # rank -> rows for each expert of all ranks
    weights = [normal(experts, 4, 4, seed=i) for i in range(size)]
    x = normal(sum(counts[rank]), 4, seed=30 + rank)
    sent = counts[rank]
    received = [n for i in range(size) for n in counts[i][rank * experts : (rank + 1) * experts]]
    weight = weights[rank].npu()
    y, shared, rows = torch_npu.npu_alltoallv_gmm(
        x.npu(), weight, hcom, size, sent, received, mm_x=x.npu(), mm_weight=weight[0], permute_out_flag=True
    )
    given = [normal(sum(counts[i]), 4, seed=30 + i).split(counts[i]) for i in range(size)]
    wanted = torch.cat([given[i][rank * experts + e] for e in range(experts) for i in range(size)])
    assert torch.equal(rows.cpu(), wanted)
    check_close(shared.cpu(), x.double() @ weights[rank][0].double())
    back, _ = torch_npu.npu_gmm_alltoallv(y, weight, hcom, size, received, sent)
    every = torch.cat(weights).double()
    pieces = [piece.double() @ every[i] @ every[i] for i, piece in enumerate(x.split(sent))]
    torch.testing.assert_close(back.cpu().double(), torch.cat(pieces), rtol=1e-4, atol=1e-4)


def check_quantised_experts() -> None:
    rank, size, experts = dist.get_rank(), dist.get_world_size(), 2
    hcom = dist.group.WORLD._get_backend(torch.device("npu")).get_hccl_comm_name(rank)
    counts = [[1, 2, 0, 3], [2, 1, 1, 0]]  # rank -> rows for each expert of all ranks
    sent, received = counts[rank], [n for i in range(size) for n in counts[i][rank * experts : (rank + 1) * experts]]
    whole = lambda *sizes, seed: integers(-9, 9, *sizes, dtype=torch.int8, seed=seed)  # noqa: E731
    weights = [whole(experts, 4, 4, seed=i) for i in range(size)]
    given = [whole(sum(counts[i]), 4, seed=30 + i) for i in range(size)]
    x_scale, scales = torch.tensor([0.5]), torch.tensor([0.25, 3.0])
    of_weights = (weights[rank].npu(), x_scale.npu(), scales.npu(), hcom, size)

    def product(rows: torch.Tensor, weight: torch.Tensor, expert: int) -> torch.Tensor:
        return rows.double() @ weight.double() * x_scale * scales[expert]

    y, _, rows = torch_npu.npu_alltoallv_quant_gmm(
        given[rank].npu(), *of_weights, sent, received, torch.float32, permute_out_flag=True
    )
    of_all = [x.split(n) for x, n in zip(given, counts, strict=True)]
    pieces = [[of_all[i][rank * experts + e] for i in range(size)] for e in range(experts)]
    assert torch.equal(rows.cpu(), torch.cat([torch.cat(own) for own in pieces]))
    check_close(y.cpu(), torch.cat([product(torch.cat(own), weights[rank][e], e) for e, own in enumerate(pieces)]))
    back, _ = torch_npu.npu_quant_gmm_alltoallv(rows, *of_weights, received, sent, torch.float32)
    home = [product(own, weights[i // experts][i % experts], i % experts) for i, own in enumerate(of_all[rank])]
    check_close(back.cpu(), torch.cat(home))


@pytest.mark.parametrize("function", [check_experts, check_quantised_experts])
def test_rows_go_to_experts_and_come_back(ranks, function):
    ranks(function)


def check_names() -> None:
    x = torch.ones(2, 2, device="npu")
    wanted = "npu_mm_all_reduce_base: hcom 'nobody' is no process group of this process; get_hccl_comm_name() of"
    with pytest.raises(RuntimeError, match=re.escape(wanted)):
        torch_npu.npu_mm_all_reduce_base(x, x, "nobody")
    name = dist.group.WORLD.group_name
    wanted = f"npu_mm_reduce_scatter_base: the group '{name}' has 2 ranks, but the world size is given as 4"
    with pytest.raises(RuntimeError, match=re.escape(wanted)):
        torch_npu.npu_mm_reduce_scatter_base(torch.ones(4, 2, device="npu"), x, name, 4)


def test_names_of_groups(ranks):
    ranks(check_names)


def test_arguments_that_do_not_fit_are_refused_by_name():
    x, row = torch.ones(3, 2), torch.ones(2, 3, 2)
    weight, names = torch.ones(2, 4), torch_npu
    refused = [
        (
            "npu_mm_all_reduce_base: reduce_op must be 'sum', got 'max'",
            "npu_mm_all_reduce_base",
            (x, weight, NO_OBSERVER),
            {"reduce_op": "max"},
        ),
        ("npu_mm_all_reduce_base: x2 must have 2 rows, got 3", "npu_mm_all_reduce_base", (x, x, NO_OBSERVER), {}),
        (
            "npu_all_gather_base_mm: gather_index must be 0, got 1",
            "npu_all_gather_base_mm",
            (x, weight, NO_OBSERVER, 1),
            {"gather_index": 1},
        ),
        (
            "npu_all_to_all_matmul: all2all_axes must be [-2, -1], got [0, 1]",
            "npu_all_to_all_matmul",
            (x, weight, NO_OBSERVER, 1),
            {"all2all_axes": [0, 1]},
        ),
        (
            "npu_alltoallv_gmm: send_counts must have 1 * 2 counts, got 1",
            "npu_alltoallv_gmm",
            (x, row, NO_OBSERVER, 1, [3], [3, 0]),
            {"trans_gmm_weight": True},
        ),
        (
            "npu_gmm_alltoallv: mm_x and mm_weight come together",
            "npu_gmm_alltoallv",
            (x, row, NO_OBSERVER, 1, [3, 0], [3, 0]),
            {"mm_x": x, "trans_gmm_weight": True},
        ),
        (
            "npu_quant_mm_reduce_scatter: amax_output is not supported on the host",
            "npu_quant_mm_reduce_scatter",
            (x, weight, NO_OBSERVER, 1),
            {"amax_output": True},
        ),
    ]
    for text, name, args, kwargs in refused:
        with pytest.raises(RuntimeError, match=re.escape(text)):
            getattr(names, name)(*args, **kwargs)
