# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/quantisation/mx_groups.cc and mx_gates.cc: blocks of rows and columns, of groups of
rows, and of gated units."""

from __future__ import annotations

import math

import pytest
import torch
import torch_npu

from tests.python.device.microscaled import TYPES, as_bytes, blocks, elements, shared_exponent
from tests.python.device.npu_operators import check, check_refused, normal

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def square_blocks(x, dst_type):
    """Quantises one matrix in blocks of 32 by 32."""
    rows, columns = x.shape
    y, last = x.clone(), torch.zeros(rows, 2 * math.ceil(columns / 64), dtype=torch.uint8)
    before = torch.zeros(2 * math.ceil(rows / 64), columns, dtype=torch.uint8)
    for i in range(0, rows, 32):
        for j in range(0, columns, 32):
            block = x[i : i + 32, j : j + 32]
            shared = shared_exponent(block.abs().max().item(), dst_type)
            y[i : i + 32, j : j + 32] = block / 2.0**shared
            last[i : i + 32, j // 32] = shared + 127
            before[i // 32, j : j + 32] = shared + 127
    scales = last.view(rows, -1, 2), before.view(-1, 2, columns).movedim(1, -1)
    return elements(y, dst_type), *scales


@pytest.mark.parametrize("dst_type", TYPES)
def test_dynamic_block_mx_quant(dst_type: torch.dtype | int) -> None:
    def op(x):
        return as_bytes(torch_npu.npu_dynamic_block_mx_quant(x, dst_type=dst_type))

    def reference(x):
        parts = zip(*(square_blocks(matrix, dst_type) for matrix in x), strict=True)
        return tuple(map(torch.stack, parts))

    x = normal(2, 70, 40) * torch.linspace(0.1, 50, 40)
    x[1, 32:64, :32] = 0
    check(op, (x,), reference, compiled=dst_type == 296)


def groups_of(ends, rows):
    """Returns begin and end of each group. The last group takes the rows that are left."""
    starts = [0, *ends[:-1]]
    return list(zip(starts, [*ends[:-1], rows], strict=True))


def grouped_blocks(x, ends, dst_type, rounds_up=False):
    scales = torch.zeros(x.shape[0] // 64 + len(ends), x.shape[1], 2, dtype=torch.uint8)
    parts = []
    for group, (begin, end) in enumerate(groups_of(ends.tolist(), x.shape[0])):
        if begin == end:
            continue
        values, scale = blocks(x[begin:end], 0, dst_type, rounds_up)
        parts.append(values)
        scales[begin // 64 + group : begin // 64 + group + len(scale)] = scale
    return torch.cat(parts), scales


@pytest.mark.parametrize("ends", [[40, 40, 130, 150], [150], [7, 140]])
@pytest.mark.parametrize("dst_type", [E5M2, 296])
def test_grouped_dynamic_mx_quant(ends: list[int], dst_type: torch.dtype | int) -> None:
    def op(x, ends):
        return as_bytes(torch_npu.npu_grouped_dynamic_mx_quant(x, ends, dst_type=dst_type))

    x = normal(150, 6) * torch.linspace(0.1, 50, 150)[:, None]
    compiled = dst_type == E5M2 and len(ends) == 4
    check(op, (x, torch.tensor(ends)), lambda x, e: grouped_blocks(x, e, dst_type), compiled=compiled)


@pytest.mark.parametrize(("rows", "columns", "as_sizes"), [(1, 16, False), (4, 8, True)])
def test_grouped_dynamic_block_quant(rows: int, columns: int, as_sizes: bool) -> None:
    ends = [5, 5, 14]

    def op(x, groups):
        sizes = {"row_block_size": rows, "col_block_size": columns, "group_list_type": int(as_sizes)}
        y, scale = torch_npu.npu_grouped_dynamic_block_quant(x, groups, min_scale=0.005, dst_type=E4M3, **sizes)
        return y.view(torch.uint8), scale

    def reference(x, _):
        scale = torch.full((14 // rows + 3, math.ceil(20 / columns)), 0.005, dtype=x.dtype)
        y = x.clone()
        for group, (begin, end) in enumerate(groups_of(ends, 14)):
            for i in range(begin, end, rows):
                place = begin // rows + group + (i - begin) // rows
                for j in range(0, 20, columns):
                    at = (slice(i, min(i + rows, end)), slice(j, j + columns))
                    scale[place, j // columns] = max(x[at].abs().max() / 448, 0.005)
                    y[at] = x[at] / scale[place, j // columns]
        return elements(y, E4M3), scale

    x = normal(14, 20) * 30
    x[2:6, :8] = 0
    groups = torch.tensor([5, 0, 9] if as_sizes else ends, dtype=torch.int32)
    check(op, (x, groups), reference)


def swiglu(x, left=True, limit=0.0):
    a, b = x.chunk(2, -1) if left else x.chunk(2, -1)[::-1]
    if limit > 0:
        a, b = a.clamp(max=limit), b.clamp(-limit, limit)
    return torch.nn.functional.silu(a) * b


def gradient(x, grad, **how):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(swiglu(x, **how), x, grad)[0]


def exact_halves(rows, columns):
    """Returns values whose gated units and their gradients are exact in float32, since silu(40) is 40."""
    x = torch.full((rows, 2 * columns), 40.0)
    x[:, columns:] = torch.randint(-512, 512, (rows, columns), generator=torch.Generator().manual_seed(0)) / 16
    return x


@pytest.mark.parametrize("grouped", [False, True])
def test_swiglu_mx_quant_with_dual_axis(grouped: bool) -> None:
    ends = torch.tensor([30, 70]) if grouped else None

    def op(x, group_index):
        return as_bytes(torch_npu.npu_swiglu_mx_quant_with_dual_axis(x, group_index=group_index))

    def reference(x, group_index):
        y = swiglu(x)
        before = grouped_blocks(y, group_index, E4M3, True) if grouped else blocks(y, 0, E4M3, True)
        return *blocks(y, -1, E4M3, True), *before

    check(op, (exact_halves(70, 40), ends), reference, compiled=grouped)


@pytest.mark.parametrize("left", [False, True])
def test_swiglu_backward_mx_quant_with_dual_axis(left: bool) -> None:
    def op(x, grad):
        how = {"activate_left": left, "scale_alg": 0, "dst_type": E5M2}
        return as_bytes(torch.ops.npu._npu_swiglu_backward_mx_quant_with_dual_axis(x, grad, **how))

    def reference(x, grad):
        exact = gradient(x, grad, left=left)
        return *blocks(exact, -1, E5M2), *blocks(exact, -2, E5M2)

    x = exact_halves(40, 32)
    grad = torch.randint(-64, 64, (40, 32), generator=torch.Generator().manual_seed(1)) / 8
    check(op, (x if left else x.roll(32, 1), grad), reference, compiled=left)


@pytest.mark.parametrize(("round_scale", "limit", "weighted"), [(False, -1.0, True), (True, 0.5, False)])
def test_swiglu_group_quant(round_scale: bool, limit: float, weighted: bool) -> None:
    def op(x, weight):
        y, scale, origin = torch_npu.npu_swiglu_group_quant(
            x,
            weight=weight,
            dst_type=E4M3,
            block_size=16,
            round_scale=round_scale,
            clamp_limit=limit,
            output_origin=True,
        )
        return y.float() * scale.repeat_interleave(16, -1)[..., :40], scale, origin

    def reference(x, weight):
        origin = swiglu(x, limit=limit)
        exact = origin * weight.unsqueeze(-1) if weighted else origin
        scale = torch.stack([part.abs().amax(-1) / 448 for part in exact.split(16, -1)], -1)
        scale = torch.exp2(torch.ceil(torch.log2(scale))) if round_scale else scale
        spread = scale.repeat_interleave(16, -1)[..., :40]
        return (exact / spread).float().to(E4M3).double() * spread, scale, origin

    check(op, (normal(2, 3, 80), normal(2, 3).abs() if weighted else None), reference)


@pytest.mark.parametrize(
    ("limit", "weighted", "with_origin"), [(0.0, True, True), (0.5, True, False), (0.5, False, False)]
)
def test_swiglu_group_quant_backward(limit: float, weighted: bool, with_origin: bool) -> None:
    x, weight = normal(5, 24), normal(5, seed=1).abs() if weighted else None
    origin = swiglu(x, limit=limit) if with_origin else None

    def op(grad, x, weight, y_origin):
        return torch.ops.npu.npu_swiglu_group_quant_backward(
            grad, x, weight=weight, y_origin=y_origin, clamp_limit=limit
        )

    def reference(grad, x, weight, _):
        if not weighted:
            return gradient(x, grad, limit=limit), torch.empty(0)
        of_rows = (grad * swiglu(x, limit=limit)).sum(-1)
        return gradient(x, grad * weight[:, None], limit=limit), of_rows

    check(op, (normal(5, 12, seed=2), x, weight, origin), reference, compiled=with_origin)


def test_results_that_are_not_asked_for() -> None:
    y, scale, origin = torch_npu.npu_swiglu_group_quant(normal(3, 512).bfloat16().npu())
    assert (y.dtype, y.shape, scale.shape, origin.shape) == (E5M2, (3, 256), (3, 2), (0,))


def test_arguments_that_do_not_fit_are_refused_by_name() -> None:
    x, ends = normal(4, 64), torch.tensor([4])
    check_refused("npu_dynamic_block_mx_quant", r"dst_type_max is 6 and", x, dst_type_max=6.0)
    check_refused("npu_grouped_dynamic_mx_quant", r"block_size is 64, allowed is 32", x, ends, blocksize=64)
    check_refused("npu_grouped_dynamic_mx_quant", r"x has 3 dimensions", normal(2, 2, 64), ends)
    message = r"group_list_type is 2, allowed are \[0, 1\]"
    check_refused("npu_grouped_dynamic_block_quant", message, x, ends, group_list_type=2)
    message = r"blocks are of 0 by 128 values, allowed are positive sizes"
    check_refused("npu_grouped_dynamic_block_quant", message, x, ends, row_block_size=0)
    check_refused("npu_swiglu_group_quant", r"quant_mode is 1, allowed are \[0\]", x, quant_mode=1)
    check_refused("npu_swiglu_group_quant", r"scale is a tensor, allowed is None", x, scale=x)
    check_refused("npu_swiglu_group_quant", r"block_size is -1, allowed are 0, which stands for 128", x, block_size=-1)
    check_refused("npu_swiglu_group_quant", r"weight has 3 values, allowed is 4, one for each row", x, weight=x[0, :3])
    message = r"the last dimension of x has size 63, which has no two halves"
    check_refused("npu_swiglu_mx_quant_with_dual_axis", message, x[:, :63])
    check_refused("npu_swiglu_group_quant_backward", r"grad_y has shape \[4, 64\]", x, x)
