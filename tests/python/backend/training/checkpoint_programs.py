# SPDX-License-Identifier: Apache-2.0
"""Training programs with checkpoints. ``PROGRAMS`` has them by name, and ``check_program`` compares one with eager
mode: loss, gradients, and the random numbers that follow."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

import npugraph
from tests.python.backend.checks import compiled_artifacts

WIDTH, HEADS = 8, 2
Part = Callable[..., Any]

once = functools.partial(checkpoint, use_reentrant=False)
reentrant = functools.partial(checkpoint, use_reentrant=True)


def heads(x: torch.Tensor) -> torch.Tensor:
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, *, dropout: float = 0.0, causal: bool = False) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.dropout, self.causal = dropout, causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = map(heads, self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout, is_causal=self.causal)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A block of GPT with dropout behind attention and behind the perceptron."""

    def __init__(self, *, dropout: float = 0.1, in_attention: float = 0.0) -> None:
        super().__init__()
        self.attention = Attention(dropout=in_attention, causal=True)
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))
        self.dropout = dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + F.dropout(self.attention(self.before(x)), self.dropout, self.training)
        return x + F.dropout(self.mlp(self.between(x)), self.dropout, self.training)


class Whole(nn.Module):
    """Checkpoints all of ``part``."""

    def __init__(self, part: nn.Module, how: Part = once) -> None:
        super().__init__()
        self.part, self.how = part, how

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.how(self.part, *inputs)


class Each(nn.Module):
    """Checkpoints each of ``parts``, with dropout between them that is computed once."""

    def __init__(self, *parts: nn.Module, how: Part = once) -> None:
        super().__init__()
        self.parts, self.how = nn.ModuleList(parts), how

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.parts:
            x = F.dropout(self.how(part, x), 0.2)
        return x


class Inside(nn.Module):
    """A checkpoint in a checkpoint."""

    def __init__(self, part: nn.Module, inner: Part = once, outer: Part = once) -> None:
        super().__init__()
        self.part, self.inner, self.outer = part, inner, outer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def whole(x: torch.Tensor) -> torch.Tensor:
            return F.dropout(self.inner(self.part, F.dropout(x, 0.2)), 0.3).sin()

        return self.outer(whole, x)


class Function(nn.Module):
    """A function of ``x`` with a weight, whose random numbers come again."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function, self.linear = function, nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self.linear(x).sin()).cos()


class LanguageModel(nn.Module):
    def __init__(self, how: Part = once) -> None:
        super().__init__()
        self.how = how
        self.tokens, self.places = nn.Embedding(11, WIDTH), nn.Embedding(32, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1] - 1, device=tokens.device)
        x = F.dropout(self.tokens(tokens[:, :-1]) + self.places(places), 0.1)
        for block in self.blocks:
            x = self.how(block, x)
        return F.cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, WIDTH, 3, padding=1), nn.GroupNorm(2, WIDTH), nn.ReLU(), nn.Dropout2d(0.3), nn.MaxPool2d(2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).mean((2, 3))


class TwoResults(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def part(x: torch.Tensor, *, factor: float) -> tuple[torch.Tensor, torch.Tensor]:
            y = self.linear(x)
            return F.dropout(y, 0.3) * factor, F.alpha_dropout(y, 0.3, training=True)

        one, other = once(part, x, factor=0.5)
        return one @ other.mT


class Autocast(nn.Module):
    def __init__(self, part: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.part, self.dtype = part, dtype

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        with torch.autocast(inputs[0].device.type, dtype=self.dtype):
            return self.part(*inputs)


def selective(*kept: Any, otherwise: CheckpointPolicy = CheckpointPolicy.PREFER_RECOMPUTE) -> Part:
    """A checkpoint that keeps the results of these operators and computes the others again."""

    def policy(_: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        return CheckpointPolicy.MUST_SAVE if operator in kept else otherwise

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    return functools.partial(checkpoint, use_reentrant=False, context_fn=contexts)


aten = torch.ops.aten
_PRODUCTS = selective(aten.mm.default, aten.addmm.default, aten.bmm.default)
_ATTENTION = selective(
    aten._scaled_dot_product_flash_attention_for_cpu.default, aten._scaled_dot_product_flash_attention.default
)
_DROPOUT = selective(aten.native_dropout.default)
_ALL_AGAIN = selective(otherwise=CheckpointPolicy.MUST_RECOMPUTE)


def tokens(n: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(2, n, WIDTH),)


def text(n: int) -> tuple[torch.Tensor, ...]:
    return (torch.randint(0, 11, (2, n + 1)),)


def images(n: int) -> tuple[torch.Tensor, ...]:
    return (torch.randn(4, 3, n + 3, n + 4),)


def drawn(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], nn.Module]:
    return lambda: Whole(Function(function))


# Name -> a function that makes the model, and one that makes its inputs from a length.
PROGRAMS: dict[str, tuple[Callable[[], nn.Module], Callable[[int], tuple[torch.Tensor, ...]]]] = {
    "dropout": (drawn(lambda t: F.dropout(t, 0.5)), tokens),
    "attention": (lambda: Whole(Attention()), tokens),
    "attention and dropout": (lambda: Whole(Block()), tokens),
    "dropout before attention": (lambda: Whole(nn.Sequential(nn.Dropout(0.3), Attention())), tokens),
    "attention twice": (lambda: Whole(nn.Sequential(Block(), Block())), tokens),
    "dropout in attention": (lambda: Whole(Block(in_attention=0.2)), tokens),
    "blocks": (lambda: Each(Block(), Block()), tokens),
    "language model": (LanguageModel, text),
    "nested": (lambda: Inside(Block()), tokens),
    "nested three times": (lambda: Whole(Inside(Function(lambda t: F.dropout(t, 0.2)))), tokens),
    "nested selective": (lambda: Inside(Block(), inner=_PRODUCTS), tokens),
    "reentrant": (lambda: Whole(Block(), reentrant), tokens),
    "reentrant blocks": (lambda: Each(Block(), Block(), how=reentrant), tokens),
    "reentrant language model": (lambda: LanguageModel(reentrant), text),
    "reentrant around": (lambda: Inside(Block(), outer=reentrant), tokens),
    "selective products": (lambda: Whole(Block(), _PRODUCTS), tokens),
    "selective attention": (lambda: Whole(Block(), _ATTENTION), tokens),
    "selective dropout": (lambda: Whole(Block(), _DROPOUT), tokens),
    "selective dropout in attention": (lambda: Whole(Block(in_attention=0.2), _DROPOUT), tokens),
    "all again": (lambda: Whole(Block(), _ALL_AGAIN), tokens),
    "selective language model": (lambda: LanguageModel(_PRODUCTS), text),
    "convolutions": (lambda: Whole(Convolutions()), images),
    "two results": (TwoResults, tokens),
    "uniform": (drawn(lambda t: t * torch.rand_like(t)), tokens),
    "normal": (drawn(lambda t: t + torch.randn_like(t)), tokens),
    "normal of a size": (drawn(lambda t: t + torch.randn(t.shape, device=t.device)), tokens),
    "bernoulli": (drawn(lambda t: t * torch.bernoulli(t.detach().abs())), tokens),
    "alpha dropout": (drawn(lambda t: F.alpha_dropout(t, 0.3, training=True)), tokens),
    "gumbel softmax": (drawn(lambda t: F.gumbel_softmax(t, 0.7)), tokens),
    "permutation": (drawn(lambda t: t[:, torch.randperm(t.shape[1], device=t.device)]), tokens),
    "random slopes": (drawn(lambda t: F.rrelu(t, training=True)), tokens),
    "exponential": (drawn(lambda t: t * torch.empty_like(t).exponential_()), tokens),
    "integers": (drawn(lambda t: t * torch.randint_like(t, 0, 3)), tokens),
    "bf16 blocks": (lambda: Autocast(Each(Block(), Block()), torch.bfloat16), tokens),
    "bf16 language model": (lambda: Autocast(LanguageModel(), torch.bfloat16), text),
    "bf16 selective": (lambda: Autocast(Whole(Block(), _PRODUCTS), torch.bfloat16), tokens),
    "bf16 inside": (lambda: Whole(Autocast(Block(), torch.bfloat16)), tokens),
    "f16 blocks": (lambda: Autocast(Each(Block(), Block()), torch.float16), tokens),
    "f16 reentrant": (lambda: Autocast(Whole(Block(), reentrant), torch.float16), tokens),
    "f16 language model": (lambda: Autocast(LanguageModel(), torch.float16), text),
}

# A few of each kind, for tests that have little time.
SOME = ("attention and dropout", "nested selective", "reentrant", "f16 reentrant", "permutation")


def check_program(name: str, device: str, *, dynamic: bool | None = None, sizes: tuple[int, ...] = (5, 7)) -> None:
    """Computes scaled gradients of a model in each size, compiled and in eager mode. Checks that both are the same, and
    that no task of the Programs is Python."""
    make, inputs_of = PROGRAMS[name]
    eager = make().to(device)
    own = copy.deepcopy(eager)
    compiled = torch.compile(own, backend="npugraph_ex", fullgraph=True, dynamic=dynamic)
    # Of the largest element, since 16-bit gradients are sums of rounded terms that may be larger than the sum.
    share = 5e-2 if name.startswith(("bf16", "f16")) else 1e-4
    with warnings.catch_warnings():
        warnings.simplefilter("error", npugraph.NpugraphWarning)
        for size in sizes:
            inputs = [t.to(device) for t in inputs_of(size)]
            given = [t.requires_grad_() if t.is_floating_point() else t for t in inputs]
            steps = [_step(run, model, given, device) for run, model in ((compiled, own), (eager, eager))]
            for got, want in zip(*steps, strict=True):
                torch.testing.assert_close(got, want, rtol=0, atol=share * max(want.abs().max().item(), 0.1))
    assert not [task.name for artifact in compiled_artifacts() for task in artifact.tasks if task.kind == "python"]


def _step(run: Callable[..., Any], model: nn.Module, inputs: list[torch.Tensor], device: str) -> list[torch.Tensor]:
    """Returns the loss, the gradients, and random numbers that the device draws after them."""
    scaler = torch.amp.GradScaler(device, init_scale=16.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    model.zero_grad()
    torch.manual_seed(3)
    loss = run(*inputs).float().square().mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    gradients = [p.grad.clone() for p in model.parameters()]
    of_inputs = [x.grad for x in inputs if x.requires_grad]
    for x in inputs:
        x.grad = None
    scaler.step(optimizer)
    scaler.update()
    return [loss.detach(), *gradients, *of_inputs, torch.rand(3, device=device)]
