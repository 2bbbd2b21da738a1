# SPDX-License-Identifier: Apache-2.0
"""flex_attention becomes generated attention if its functions only hide keys or add to scores, and products and loops
otherwise."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

import npugraph
from tests.python.backend.checks import compile_ex

SLOPES = torch.tensor([0.5, 0.25, 0.125, 0.0625])
DISTANCES = torch.randn(4, 40, generator=torch.Generator().manual_seed(1))
DOCUMENTS = torch.tensor([0] * 5 + [1] * 6 + [2] * 5)

Mod = Callable[..., torch.Tensor]

# Name -> score_mod, mask_mod
ATTENTION: dict[str, tuple[Mod | None, Mod | None]] = {
    "plain": (None, None),
    "causal": (None, lambda b, h, i, j: i >= j),
    "window": (None, lambda b, h, i, j: (i >= j) & (i - j < 7)),
    "documents": (None, lambda b, h, i, j: (DOCUMENTS[i] == DOCUMENTS[j]) & (i >= j)),
    "heads": (None, lambda b, h, i, j: (i >= j) | (h < 2)),
    "first_queries_see_nothing": (None, lambda b, h, i, j: (i >= j) & (i > 3)),
    "alibi": (lambda s, b, h, i, j: s + SLOPES[h] * (j - i), None),
    "causal_score": (lambda s, b, h, i, j: torch.where(i >= j, s, -float("inf")), None),
    "relative": (lambda s, b, h, i, j: s + DISTANCES[h, i - j + 16], lambda b, h, i, j: i >= j),
}
WRITTEN_OUT: dict[str, tuple[Mod | None, Mod | None]] = {
    "soft_cap": (lambda s, b, h, i, j: 5 * torch.tanh(s / 5), lambda b, h, i, j: i >= j),
    "factor": (lambda s, b, h, i, j: s * SLOPES[h] + SLOPES[h], None),
}
ALL = ATTENTION | WRITTEN_OUT


@pytest.fixture(autouse=True)
def nothing_in_python() -> Iterator[None]:
    npugraph.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", npugraph.NpugraphWarning)
        yield


def inputs(queries: int = 16, keys: int = 16) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, queries, 4, 8, generator=generator).transpose(1, 2)
    return [query, *(torch.randn(2, 2, keys, 8, generator=generator) for _ in range(2))]


def call_of(name: str, queries: int = 16, keys: int = 16) -> tuple[Callable[..., Any], BlockMask | None]:
    score_mod, mask_mod = ALL[name]
    mask = None if mask_mod is None else create_block_mask(mask_mod, None, None, queries, keys, device="cpu")

    def call(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: BlockMask | None) -> torch.Tensor:
        return flex_attention(query, key, value, score_mod=score_mod, block_mask=mask, enable_gqa=True) * 2

    return call, mask


@pytest.mark.parametrize("name", ALL)
def test_what_it_is_compiled_to(name: str) -> None:
    call, mask = call_of(name)
    compiled = compile_ex(call)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(*inputs(), mask), call(*inputs(), mask))
    (artifact,) = npugraph.artifacts()
    assert not artifact.partitions
    kinds = [task.kind for task in artifact.tasks]
    assert ("attention" in kinds) == (name in ATTENTION)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_what_is_added_is_not_rounded_to_16_bits(dtype: torch.dtype) -> None:
    """Scores are float32. Neither 16-bit type holds all of the addends here: steps of 0.5 for 2,048 keys, and -1e5."""

    def call(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return flex_attention(
            query, key, value, lambda s, b, h, i, j: torch.where(h < 2, s + 0.5 * j, s - 1e5 + j), enable_gqa=True
        )

    def added(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return flex_attention(query, key, value, lambda s, b, h, i, j: s + (0.5 * j - 1e5 * (h > 1)), enable_gqa=True)

    given = [x.to(dtype) for x in inputs(16, 2048)]
    for one in (call, added):
        with torch.no_grad():
            got, want = compile_ex(one)(*given), one(*(x.double() for x in given))
        torch.testing.assert_close(got.double(), want, rtol=2e-2, atol=2e-2)


def test_keys_and_values_of_a_lower_type() -> None:
    call, mask = call_of("causal")
    query, *others = inputs()
    given = [query, *(x.bfloat16() for x in others)]
    with torch.no_grad():
        torch.testing.assert_close(compile_ex(call)(*given, mask), call(*given, mask), rtol=1e-2, atol=1e-2)


def test_masks_of_positions_are_not_made() -> None:
    for name, bounds in (("causal", "after=0"), ("window", "before=6, after=0")):
        call, mask = call_of(name)
        with torch.no_grad():
            compile_ex(call)(*inputs(), mask)
        (artifact,) = npugraph.artifacts()
        assert bounds in artifact.graph()
        assert "aten.ge" not in artifact.graph() and "const" not in artifact.graph()
        npugraph.reset()


def test_changing_sizes() -> None:
    call, _ = call_of("causal")
    compiled = compile_ex(call, dynamic=True)
    with torch.no_grad():
        for size in (16, 24, 40):
            mask = call_of("causal", size, size)[1]
            torch.testing.assert_close(compiled(*inputs(size, size), mask), call(*inputs(size, size), mask))


def test_gradients_of_what_score_mod_reads() -> None:
    """Torch has no gradients of query, key and value on the CPU."""
    slopes = SLOPES.clone().requires_grad_()

    def call(query, key, value):
        return flex_attention(query, key, value, lambda s, b, h, i, j: s + slopes[h] * (j - i), enable_gqa=True)

    given = [*inputs(), slopes]
    got, want = (torch.autograd.grad(run(*given[:3]).square().sum(), slopes) for run in (compile_ex(call), call))
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_the_log_of_sums_is_given_too() -> None:
    def call(query, key, value):
        return flex_attention(query, key, value, lambda s, b, h, i, j: s + i, enable_gqa=True, return_lse=True)

    with torch.no_grad():
        torch.testing.assert_close(compile_ex(call)(*inputs()), call(*inputs()))
