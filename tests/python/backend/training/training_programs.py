# SPDX-License-Identifier: Apache-2.0
"""Small models that are trained with inputs of changing sizes. ``PROGRAMS`` has them by name."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH, HEADS = 8, 2


def heads(x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def joined(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).flatten(2)


class Mlp(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))


class Attention(nn.Module):
    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        self.query, self.key_value, self.out = (nn.Linear(WIDTH, n * WIDTH) for n in (1, 2, 1))
        self.causal = causal

    def forward(self, x, context=None, mask=None):
        k, v = self.key_value(x if context is None else context).chunk(2, -1)
        scores = F.scaled_dot_product_attention(
            heads(self.query(x)), heads(k), heads(v), attn_mask=mask, is_causal=self.causal
        )
        return self.out(joined(scores))


class Block(nn.Module):
    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(causal=causal), Mlp()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = x + self.attention(self.before(x))
        return x + self.mlp(self.between(x))


class Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False)


class WrittenOut(Attention):
    def forward(self, x):
        q, (k, v) = heads(self.query(x)), map(heads, self.key_value(x).chunk(2, -1))
        scores = (q @ k.mT) / k.shape[-1] ** 0.5
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.out(joined(scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v))


class CrossAttention(Attention):
    def forward(self, x, context):
        return super().forward(x, context) * (1 + context.mean(1, keepdim=True))


class PaddedAttention(Attention):
    def forward(self, x, lengths):
        mask = torch.arange(x.shape[1]) < lengths[:, None]
        return super().forward(x, mask=mask[:, None, None]) * mask[..., None]


class GroupedRotary(nn.Module):
    """Attention with one head of keys for all queries, rotary positions and RMS norms."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key_value = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH // HEADS)
        self.norm = nn.RMSNorm(WIDTH)

    def forward(self, x):
        turns = torch.arange(x.shape[1])[:, None] / torch.tensor([1.0, 10.0])
        cos, sin = turns.cos().repeat(1, 2), turns.sin().repeat(1, 2)

        def turned(t):
            a, b = t.chunk(2, -1)
            return t * cos + torch.cat([-b, a], -1) * sin

        x = self.norm(x)
        k, v = self.key_value(x).chunk(2, -1)
        k, v = (t[:, None].expand(-1, HEADS, -1, -1) for t in (turned(k), v))
        return joined(F.scaled_dot_product_attention(turned(heads(self.query(x))), k, v, is_causal=True))


class JointAttention(nn.Module):
    """Attention over two streams of tokens together. Each stream has its own weights and its own modulation."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.modulation = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(2))

    def forward(self, image, text, time):
        streams = (text, image)
        shifts = [m(F.silu(time))[:, None].chunk(3, -1) for m in self.modulation]
        normed = [
            F.layer_norm(x, (WIDTH,)) * (1 + scale) + shift
            for x, (shift, scale, _) in zip(streams, shifts, strict=True)
        ]
        parts = [[heads(t) for t in qkv(x).chunk(3, -1)] for qkv, x in zip(self.qkv, normed, strict=True)]
        q, k, v = (torch.cat(pair, 2) for pair in zip(*parts, strict=True))
        both = joined(F.scaled_dot_product_attention(q, k, v))
        seen = both[:, : text.shape[1]], both[:, text.shape[1] :]
        return tuple(x + gate * out(y) for x, y, out, (_, _, gate) in zip(streams, seen, self.out, shifts, strict=True))


class FusedStream(nn.Module):
    """A single stream of text and image. One product makes queries, keys, values and the hidden layer of the MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, 5 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)

    def forward(self, image, text, time):
        x = torch.cat([text, image], 1)
        qkv, wide = self.first(F.layer_norm(x, (WIDTH,))).split([3 * WIDTH, 2 * WIDTH], -1)
        seen = joined(F.scaled_dot_product_attention(*(heads(t) for t in qkv.chunk(3, -1))))
        x = x + time[:, None] * self.second(torch.cat([seen, F.gelu(wide, approximate="tanh")], -1))
        return x[:, text.shape[1] :]


class Windows(nn.Module):
    """Attention within windows of 4 by 4, after padding."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()

    def forward(self, x):
        rows, columns = x.shape[1:3]
        x = F.pad(x, (0, 0, 0, -columns % 4, 0, -rows % 4))
        y = x.unflatten(2, (-1, 4)).unflatten(1, (-1, 4)).transpose(2, 3)
        y = self.attention(y.reshape(-1, 16, WIDTH)).view(y.shape).transpose(2, 3).flatten(3, 4).flatten(1, 2)
        return y[:, :rows, :columns]


class Patches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patch, self.block, self.last = nn.Conv2d(3, WIDTH, 2, stride=2), Block(), nn.Linear(WIDTH, 4)
        self.first = nn.Parameter(torch.randn(1, 1, WIDTH))

    def forward(self, x):
        tokens = self.patch(x).flatten(2).mT
        return self.last(self.block(torch.cat([self.first.expand(x.shape[0], -1, -1), tokens], 1))[:, 0])


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.block = nn.Embedding(11, WIDTH), Block(causal=True)

    def forward(self, tokens):
        logits = self.block(self.embedding(tokens[:, :-1])) @ self.embedding.weight.mT
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.GroupNorm(2, WIDTH), nn.SiLU(), nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.Dropout2d(0.0)
        )

    def forward(self, x):
        return x + self.body(x)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.down = nn.Conv2d(3, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, WIDTH, 3, stride=2, padding=1)
        self.middle, self.last = Residual(), nn.Conv2d(2 * WIDTH, 3, 3, padding=1)

    def forward(self, x):
        x = self.first(x)
        y = F.interpolate(self.middle(self.down(x)), size=x.shape[-2:], mode="nearest")
        return self.last(torch.cat([x, y], 1))


class Upsampled(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Upsample(scale_factor=2), nn.Conv2d(4, 3, 3))


class Classifier(nn.Sequential):
    def __init__(self) -> None:
        body = [nn.Conv2d(3, WIDTH, 3, padding=1), nn.BatchNorm2d(WIDTH), nn.ReLU(), nn.MaxPool2d(2)]
        super().__init__(*body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, 4))


class Depthwise(nn.Sequential):
    def __init__(self) -> None:
        parts = [nn.Conv2d(3, WIDTH, 1), nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH), nn.Hardswish()]
        super().__init__(*parts, nn.Conv2d(WIDTH, 3, 1))


class Sound(nn.Sequential):
    def __init__(self) -> None:
        parts = [nn.Conv1d(2, WIDTH, 3, stride=2), nn.LeakyReLU(), nn.AvgPool1d(2), nn.ConvTranspose1d(WIDTH, 2, 4, 2)]
        super().__init__(*parts)


class Longer(nn.Linear):
    """Appends rows before the product, so that the result has more rows than the input."""

    def forward(self, x):
        return super().forward(torch.cat([x.sin(), torch.ones(7, WIDTH)]))


class Cut(nn.Linear):
    def forward(self, long, x):
        return super().forward(long)[: x.shape[0]] * x + super().forward(long)[-x.shape[0] :]


class Halves(nn.Linear):
    def forward(self, x):
        n = x.shape[0] // 2
        return super().forward(x[:n]) * x[-n:].exp()


class Repeated(nn.Linear):
    def forward(self, x, condition):
        rows = super().forward(condition).repeat(x.shape[0], 1, 1).reshape(-1, WIDTH)
        return rows.view(x.shape[0], -1, WIDTH).mean(1) * x


class Flat(nn.Linear):
    def forward(self, x):
        return (super().forward(x.reshape(-1, WIDTH)) ** 2).view(x.shape[0], -1)[:, : 2 * x.shape[1]]


class Mixture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(WIDTH, 3), nn.ModuleList(Mlp() for _ in range(3))

    def forward(self, x):
        shares, chosen = self.gate(x).softmax(-1).topk(2, -1)
        gates = x.new_zeros(*x.shape[:-1], 3).scatter(-1, chosen, shares)
        return sum(gates[..., i, None] * expert(x) for i, expert in enumerate(self.experts))


class Recurrence(nn.Linear):
    """Computes a linear recurrence as a product with the powers of its decay."""

    def forward(self, x):
        places = torch.arange(x.shape[1])
        decay = 0.9 ** (places[:, None] - places).clamp(min=0)
        return decay.tril().to(x) @ super().forward(x).tanh()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.rows = 2 * x.shape[0]
        ctx.save_for_backward(x.exp().repeat(2, 1))
        return x.exp().repeat(2, 1)

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        y = gradient * y
        return y[: ctx.rows // 2] + y[ctx.rows // 2 :]


class OwnGradient(nn.Linear):
    def forward(self, x):
        return Doubled.apply(super().forward(x)) * x.shape[0]


class Loss(Mlp):
    def forward(self, x, wanted):
        return F.mse_loss(super().forward(x), wanted) + x.sum() / x.numel()


def rows(n: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(n, WIDTH, requires_grad=True),)


def tokens(n: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(4, n, WIDTH, requires_grad=True),)


def image(n: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(2, 3, n + 3, n + 6, requires_grad=True),)


def two_streams(n: int) -> tuple[torch.Tensor, ...]:
    return (*tokens(n), torch.randn(4, n + 4, WIDTH, requires_grad=True), torch.randn(4, WIDTH))


def square() -> tuple[int, int]:
    return WIDTH, WIDTH


# Name -> a function that makes the model, and one that makes its inputs from a length.
PROGRAMS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], tuple[torch.Tensor, ...]]]] = {
    "longer than the input": (lambda: Longer(*square()), rows),
    "cut to another input": (lambda: Cut(*square()), lambda n: (*rows(n + 7), *rows(n))),
    "block": (Block, tokens),
    "two streams": (JointAttention, two_streams),
    "convolutions": (Classifier, image),
    "own gradient": (lambda: OwnGradient(*square()), rows),
    "halves": (lambda: Halves(*square()), rows),
    "flat": (lambda: Flat(*square()), lambda n: (torch.randn(3, n, WIDTH, requires_grad=True),)),
    "perceptron": (Mlp, tokens),
    "windows": (Windows, lambda n: (torch.randn(2, n, n + 3, WIDTH, requires_grad=True),)),
    "upsampled": (Upsampled, image),
    "causal block": (lambda: Block(causal=True), tokens),
    "checkpointed block": (Checkpointed, tokens),
    "written-out attention": (WrittenOut, tokens),
    "cross attention": (CrossAttention, lambda n: (*tokens(n), *tokens(n + 2))),
    "padded attention": (PaddedAttention, lambda n: (*tokens(n), torch.tensor([n, 2, n - 1, 1]))),
    "grouped rotary attention": (GroupedRotary, tokens),
    "one stream": (FusedStream, two_streams),
    "patches": (Patches, lambda n: (torch.randn(2, 3, 2 * n, 2 * n + 2, requires_grad=True),)),
    "language model": (LanguageModel, lambda n: (torch.randint(0, 11, (2, n + 1)),)),
    "residual convolutions": (Residual, lambda n: (torch.randn(2, WIDTH, n, n + 1, requires_grad=True),)),
    "skipped levels": (UNet, image),
    "depthwise": (Depthwise, image),
    "sound": (Sound, lambda n: (torch.randn(2, 2, n + 20, requires_grad=True),)),
    "repeated": (lambda: Repeated(*square()), lambda n: (*rows(n), torch.randn(1, 3, WIDTH, requires_grad=True))),
    "mixture": (Mixture, tokens),
    "recurrence": (lambda: Recurrence(*square()), tokens),
    "loss": (Loss, lambda n: (*tokens(n), torch.randn(4, n, WIDTH))),
}
