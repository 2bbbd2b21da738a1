# SPDX-License-Identifier: Apache-2.0
"""Models whose inputs have equal sizes, and calls of them with other sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

SIZE = 8  # in all dimensions of which a shape does not say another one
OTHER = (12, 5)  # the sizes that one dimension takes in the calls
Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Model:
    """A function of tensors of these shapes. A shape of indices ends in "i"."""

    name: str
    function: Callable[..., Any]
    shapes: tuple[Any, ...]

    def arguments(self, shapes: tuple[Any, ...] | None = None) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        made = []
        for shape in self.shapes if shapes is None else shapes:
            if shape and shape[-1] == "i":
                made.append(torch.randint(0, 5, shape[:-1], generator=generator))
            else:
                made.append(torch.randn(shape, generator=generator))
        return made

    def other_arguments(self) -> Iterator[list[torch.Tensor]]:
        """Calls in which one size is another one, and one in which all equal sizes are."""
        for i, shape in enumerate(self.shapes):
            for d, size in enumerate(shape):
                for other in OTHER if size == SIZE else ():
                    changed = (*shape[:d], other, *shape[d + 1 :])
                    yield self.arguments((*self.shapes[:i], changed, *self.shapes[i + 1 :]))
        for other in OTHER:
            yield self.arguments(tuple(tuple(other if size == SIZE else size for size in s) for s in self.shapes))


def _square(name: str, function: Callable[..., Any], inputs: int = 1) -> Model:
    return Model(name, function, ((SIZE, SIZE),) * inputs)


def halves(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[0] // 2
    return x[:half] * 2 + x[half : 2 * half]


def by_rows(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * 2 if x.shape[0] >= y.shape[0] else x * 3) + y.sum()


def is_wide(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.shape[0] * x.shape[1] > 50 else x * 3


def rotated(x: torch.Tensor) -> torch.Tensor:
    at = torch.arange(x.shape[0])[:, None] * 0.1 + torch.arange(x.shape[1])
    return x * at.cos()


def causal(x: torch.Tensor) -> torch.Tensor:
    scores = x @ x.t()
    mask = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool).tril()
    return scores.masked_fill(~mask, -1e9).softmax(-1) @ x


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y.t())
    return x * 2


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


IMAGE = (2, 3, SIZE, SIZE)

MODELS = (
    Model("conv2d", lambda x, w: F.conv2d(x, w, padding=1), (IMAGE, (4, 3, 3, 3))),
    Model("conv1d", lambda x, w: F.conv1d(x, w), ((2, SIZE, SIZE), (4, SIZE, 3))),
    Model("conv_transpose", lambda x, w: F.conv_transpose2d(x, w, stride=2), (IMAGE, (3, 4, 2, 2))),
    Model("max_pool", lambda x: F.max_pool2d(x, 2), (IMAGE,)),
    Model("avg_pool", lambda x: F.avg_pool2d(x, 3, padding=1), (IMAGE,)),
    Model("interpolate", lambda x: F.interpolate(x, scale_factor=2), (IMAGE,)),
    Model("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), (IMAGE,)),
    Model("group_norm", lambda x: F.group_norm(x, 3), (IMAGE,)),
    Model("pad", lambda x: F.pad(x, (1, 2, 0, 1), mode="reflect"), (IMAGE,)),
    Model("attention", attended, ((1, 2, SIZE, 4),) * 3),
    Model("causal", causal, ((SIZE, SIZE),)),
    Model("rotary", rotated, ((SIZE, SIZE),)),
    _square("outer", lambda a, b: a[:, None] * b[None] + 1, 2),
    _square("add", lambda a, b: (a + b).relu(), 2),
    _square("add_transposed", lambda a: a + a.t()),
    _square("matmul", lambda a, b: a @ b, 2),
    Model("bmm", lambda a, b: torch.bmm(a, b).relu(), ((SIZE, SIZE, SIZE),) * 2),
    Model("linear", lambda x, w: F.linear(x, w).relu(), ((SIZE, SIZE, 4), (6, 4))),
    _square("einsum", lambda a, b: torch.einsum("ij,kj->ik", a, b), 2),
    _square("cat", lambda a, b: torch.cat([a, b]) * 2, 2),
    _square("stack", lambda a, b: torch.stack([a, b], 1).sum(0), 2),
    _square("view", lambda x: x.view(-1, 4).softmax(-1)),
    Model("view_as", lambda x, y: x.view(y.shape[0], -1) + y.sum(), ((SIZE * 4,), (SIZE, SIZE))),
    _square("halves", halves),
    _square("glu", lambda x: F.glu(x, 0)),
    _square("chunk", lambda x: torch.stack(torch.chunk(x, 2)).sum(0)),
    _square("softmax", lambda x: x.softmax(-1) + x.sum(0, keepdim=True)),
    _square("layer_norm", lambda x, y: F.layer_norm(x, (x.shape[1],)) * y, 2),
    Model("rows_and_columns", lambda x, r, c: x + r + c[:, None], ((SIZE, SIZE), (SIZE,), (SIZE,))),
    _square("where", lambda m, a, b: torch.where(m > 0, a, b.t()), 3),
    Model("gather", lambda x, i: x.gather(1, i) * 2, ((SIZE, SIZE), (SIZE, SIZE, "i"))),
    Model("index_select", lambda x, i: x.index_select(0, i) + 1, ((SIZE, SIZE), (SIZE, "i"))),
    Model("embedding", lambda i, w: F.embedding(i, w).sum(-1), ((SIZE, SIZE, "i"), (9, 4))),
    Model("index_add", lambda x, i, y: x.index_add(0, i, y), ((SIZE, 4), (SIZE, "i"), (SIZE, 4))),
    _square("cumsum", lambda x: x.cumsum(0).flip(1)),
    _square("roll", lambda x: x.roll(2, 0) - x.roll(1, 1)),
    _square("repeat", lambda x: x.repeat(2, 3) + 1),
    _square("trace", lambda x, y: x.diagonal() * 2 + y[0], 2),
    _square("by_rows", by_rows, 2),
    _square("is_wide", is_wide),
    _square("squeeze", lambda x: x.squeeze(0) * 2),
    _square("written", written, 2),
    Model("kron", lambda a, b: torch.kron(a, b), ((SIZE, 2), (SIZE, 2))),
    _square("upper", lambda x: x.triu(1) + torch.eye(x.shape[0])),
)
