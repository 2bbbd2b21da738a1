# SPDX-License-Identifier: Apache-2.0
"""A program for a fresh process, which has no machine code yet. It runs each kind of generated task at one size, then
at many others. It prints as JSON, for each kind, the kinds of its tasks and how often LLVM was called at the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import torch
from torch._dynamo.utils import counters
from torch.nn import functional as F

import npugraph
from npugraph.gguf.modules import QuantisedLinear

SIZE = 64
ROWS = [20, *range(2, 20), 24, 31, 32, 33, 47, 48, 49, 63, 64, 65, 70, 100, 129]
Case = tuple[Callable[..., torch.Tensor], Callable[[int], tuple[torch.Tensor, ...]]]


def products() -> Iterator[tuple[str, Case]]:
    weights = torch.randn(SIZE, SIZE)
    for dtype in (torch.float32, torch.bfloat16):
        w = weights.to(dtype)

        def x(rows: int, dtype: torch.dtype = dtype) -> tuple[torch.Tensor, ...]:
            return (torch.randn(rows, SIZE, dtype=dtype),)

        yield f"linear {dtype}", (lambda x, w=w: F.gelu(F.linear(x, w)), x)
        yield f"mm {dtype}", (lambda x, w=w: x @ w + 1, x)
    yield "bmm", (torch.bmm, lambda n: (torch.randn(n, n, SIZE), torch.randn(n, SIZE, n)))
    linear = QuantisedLinear(torch.zeros(SIZE, SIZE // 32 * 18, dtype=torch.uint8), "q4_0", None)
    yield "blocks", (linear, lambda rows: (torch.randn(rows, SIZE),))


def others() -> Iterator[tuple[str, Case]]:
    for dtype in (torch.float32, torch.bfloat16):

        def heads(n: int, dtype: torch.dtype = dtype) -> tuple[torch.Tensor, ...]:
            return tuple(torch.randn(1, 4, n, 16, dtype=dtype) for _ in range(3))

        yield f"attention {dtype}", (F.scaled_dot_product_attention, heads)
        yield f"causal {dtype}", (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), heads)
    yield "convolution", (torch.nn.Conv2d(16, 32, 3), lambda n: (torch.randn(1, 16, n + 2, n + 2),))
    yield "depthwise", (torch.nn.Conv2d(36, 36, 3, groups=36), lambda n: (torch.randn(n, 36, 9, 9),))
    yield "softmax", (lambda x: (x * 2).softmax(-1), lambda n: (torch.randn(n, n + 1),))


def builds() -> int:
    return counters["npugraph_ex"]["kernel_builds"]


def main() -> None:
    torch.manual_seed(0)
    found = {}
    for name, (function, inputs) in (*products(), *others()):
        compiled = torch.compile(function, backend="npugraph_ex", dynamic=True)
        compiled(*inputs(ROWS[0]))
        first = builds()
        for rows in ROWS[1:]:
            compiled(*inputs(rows))
        found[name] = ([task.kind for task in npugraph.artifacts()[-1].tasks], builds() - first)
        torch._dynamo.reset()
        counters.clear()
    print(json.dumps(found))


if __name__ == "__main__":
    with torch.no_grad():
        main()
