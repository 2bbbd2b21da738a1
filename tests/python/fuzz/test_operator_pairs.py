# SPDX-License-Identifier: Apache-2.0
"""All pairs of operators: one behind the other, and side by side in a concatenation and in a product, against eager
mode. Random programs seldom have a given pair; loops are fused from pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
import torch.nn.functional as F

import npugraph

Function = Callable[[torch.Tensor], torch.Tensor]

# Functions of a matrix that return one.
OPERATORS = """
(x * 0.3).exp() | -x | F.gelu(x) | F.silu(x) * x | x.clamp(-1, 1) | torch.where(x > 0, x, x * 2)
x.masked_fill(x < 0, 0.5) | x.half().float() | x.bfloat16().float() | (x * 3).int().float() | (x > 0.1).float()
((x > 0) & (x < 1)).float() | x.sum(-1, keepdim=True) | x.sum(0, keepdim=True) | x.mean((-1, -2), keepdim=True)
x.amax(-1, keepdim=True) | x.amax(0, keepdim=True) | x.max(-1, keepdim=True).values
x.argmax(-1, keepdim=True).float() | x.norm(dim=-1, keepdim=True) | x.argmax(0, keepdim=True).float()
x.var(-1, keepdim=True, unbiased=False) | x.logsumexp(-1, keepdim=True) | (x > 1).any(-1, keepdim=True).float()
x.softmax(-1) | x.softmax(0) | F.layer_norm(x, x.shape[-1:])
x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) | x.cumsum(-1) | x.cumsum(0) | x.sort(-1).values
x.topk(1, -1).values | x.tril() | x.triu(1) | x.flip(-1) | x.flip(0) | x.roll(1, -1) | x.roll(1, 0)
x.roll((1, 2), (0, 1)) | x.repeat(1, 2) | x.repeat(2, 1)[: x.shape[0]] | F.pad(x, (1, 2))
F.pad(x, (0, 0, 1, 0)) | F.pad(x, (-1, 1), value=2.0) | x.mT | x.mT.contiguous() | x[:, ::2] | x[1:] | x[:1]
x[:, :1] | x[:, -1:] | x.reshape(-1, 1) | x.reshape(1, -1) | x.diagonal()[None]
x.gather(-1, torch.zeros_like(x, dtype=torch.int64)) | x[torch.tensor([0, 0])]
x.index_select(-1, torch.tensor([0, 0])) | x.scatter(-1, torch.zeros_like(x, dtype=torch.int64)[:, :1], 7.0)
x.scatter_add(0, torch.zeros_like(x, dtype=torch.int64), x)
x.index_add(0, torch.zeros(x.shape[0], dtype=torch.int64), x)
torch.ones_like(x).index_put((torch.tensor([0]),), x[:1]) | x.select_scatter(x[0] * 2, 0, 0)
x.slice_scatter(x[:1] * 3, 0, 0, 1) | torch.empty_like(x).copy_(x) | x.clone().mul_(2)
torch.cat([x, x * 2], -1) | torch.cat([x, x + 1], 0) | torch.stack([x, -x], -1).flatten(1)
x.unfold(-1, 1, 1).squeeze(-1) | F.max_pool2d(x[None, None], 3, stride=1, padding=1)[0, 0]
F.avg_pool2d(x[None, None], 3, stride=1, padding=1)[0, 0] | F.adaptive_avg_pool2d(x[None], (x.shape[0], 1))[0]
x @ x.mT | F.linear(x, torch.ones(4, x.shape[-1]) * 0.1) | x + torch.arange(x.shape[-1])
x * torch.arange(x.shape[0])[:, None] | x + torch.eye(x.shape[0], x.shape[1]) | x[:, :1] * x[:1]
F.one_hot(x.argmax(-1), x.shape[-1]).float()
"""
TEXTS = [text.strip() for line in OPERATORS.strip().splitlines() for text in line.split(" | ")]
FUNCTIONS: dict[str, Function] = {text: eval(f"lambda x: {text}", {"torch": torch, "F": F}) for text in TEXTS}
AT_ONCE = 6  # second operators in one graph


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    npugraph.reset()
    yield
    torch._dynamo.reset()
    npugraph.reset()


def together(first: Function, seconds: Sequence[Function]) -> Callable[..., list[torch.Tensor]]:
    """A function of two matrices with four outputs for each second operator."""

    def beside(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cat([a, b], -1) * 2 if a.shape[0] == b.shape[0] else a.sum() + b.sum()

    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        fits = all(m in (1, n) for m, n in zip(a.shape, b.shape, strict=True))
        return a * b if fits else a.sum() * b

    def function(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        outputs = []
        for second in seconds:
            outputs.append(second(first(x * 1.5)) + 0.5)
            outputs.append(beside(first(x + 0.25), second(y * 0.75)))
            outputs.append(beside(second(y * 0.5), first(x + 0.125)))
            outputs.append(product(first(x), second(x)))
        return outputs

    return function


@pytest.mark.long
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("first", TEXTS)
def test_every_pair_of_operators_agrees_with_eager(first: str, dynamic: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(6, 10, generator=generator) for _ in range(2))
    wrong = []
    for begin in range(0, len(TEXTS), AT_ONCE):
        texts = TEXTS[begin : begin + AT_ONCE]
        function = together(FUNCTIONS[first], [FUNCTIONS[text] for text in texts])
        torch._dynamo.reset()
        found = torch.compile(function, backend="npugraph_ex", dynamic=dynamic)(x, y)
        for place, (one, other) in enumerate(zip(found, function(x, y), strict=True)):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            if not torch.allclose(one, other, rtol=2e-3, atol=2e-3, equal_nan=True):
                wrong.append((texts[place // 4], ("behind", "before in cat", "after in cat", "times")[place % 4]))
    assert not wrong
