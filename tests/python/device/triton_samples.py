# SPDX-License-Identifier: Apache-2.0
"""Kernels of Triton. Imported only where Triton is, with its interpreter switched on."""

import triton
import triton.language as tl


@triton.jit
def scaled_add(x, y, out, n, scale, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < n
    tl.store(out + place, tl.load(x + place, mask=inside) + scale * tl.load(y + place, mask=inside), mask=inside)


@triton.jit
def put(pointer, value, inside):
    tl.store(pointer, value, mask=inside)


@triton.jit
def sums_of_rows(x, order, sums, largest, rows, columns, HOW: tl.constexpr, BLOCK: tl.constexpr):
    """Adds to ``sums`` in a loop over blocks of a row; writes ``largest`` through another kernel."""
    row = tl.load(order + tl.program_id(0))
    begin = x + row * columns
    place = tl.arange(0, BLOCK)
    greatest = tl.full((), -float("inf"), tl.float32)
    total = sums + row
    for first in range(0, columns, BLOCK):
        inside = first + place < columns
        values = tl.load(begin + first + place, mask=inside, other=-float("inf"))
        greatest = tl.maximum(greatest, tl.max(values, 0))
        tl.atomic_add(total, tl.sum(tl.where(inside, values, 0.0), 0))
    if HOW == "largest":
        put(largest + row, greatest, row < rows)


@triton.jit
def through_a_loop(a, b, c, n, BLOCK: tl.constexpr):
    """Writes ``a`` and ``b``: a later turn of the loop writes where an earlier one pointed."""
    here = a
    for _ in range(2):
        tl.store(here + tl.arange(0, BLOCK), tl.load(c + tl.arange(0, BLOCK)))
        here = b


@triton.jit
def by_a_block(source, target, n, BLOCK: tl.constexpr):
    to = tl.make_block_ptr(target, (n,), (1,), (0,), (BLOCK,), (0,))
    tl.store(to, tl.load(source + tl.arange(0, BLOCK)))


@triton.heuristics({"EVEN": lambda given: given["n"] % 2 == 0})
@triton.jit
def one_or_two_more(x, out, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, tl.load(x + place, mask=place < n) + (1 if EVEN else 2), mask=place < n)


@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=[])
@triton.jit
def one_more(x, out, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + place, tl.load(x + place, mask=place < n) + 1, mask=place < n)


@triton.autotune(configs=[triton.Config({"BLOCK": block}) for block in (32, 64)], key=[])
@triton.jit
def tuned(x, out, n, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)))
