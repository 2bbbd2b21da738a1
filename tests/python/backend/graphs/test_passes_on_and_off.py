# SPDX-License-Identifier: Apache-2.0
"""For every graph pass there is a program that the pass makes better. The results with and without the pass are close,
and equal to the bit in the cases with ``exact``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as attention

import npugraph
from npugraph.options import pass_names
from tests.python.backend.checks import assert_same, compile_ex


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


@dataclasses.dataclass(frozen=True)
class Case:
    """A program for one pass. ``less`` names the count that the pass reduces: tasks, bytes that tasks read and write,
    or copied bytes."""

    fn: Callable[..., Any]
    shapes: Sequence[Sequence[int] | torch.Tensor]
    less: str
    generate: bool = True
    exact: bool = False


def of_positions(q, k, v, positions):
    seen = torch.arange(k.shape[2])[None, :] <= positions[:, None]
    return attention(q, k, v, attn_mask=seen[None, None])


def by_hand(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * 0.25, -1) @ v


def grouped(q, k, v):
    k, v = (x[:, :, None].expand(-1, -1, 2, -1, -1).reshape(q.shape) for x in (k, v))
    return attention(q, k, v)


def by_rows(q, k, v):
    heads = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
    return attention(*heads).transpose(1, 2).contiguous().view(100, 512) * 2


def rotated(x, sines):
    first, second = x.chunk(2, -1)
    return torch.cat([-second, first], -1) * sines


def updated(cache, x, at):
    cache.index_copy_(2, at, x)
    return (cache * x).sum(-1)


def kept_back(x, y):
    x.copy_(x @ y)
    return y.exp().cumsum(0)


def through_unsigned(x, codes):
    """A product of signed bytes, as programs write it for processors that multiply unsigned bytes with signed ones."""
    weights = codes.t()
    product = torch._int_mm((x.to(torch.int32) + 128).to(torch.uint8), weights)
    return product.sub_(weights.sum(dim=0, keepdim=True, dtype=torch.int32) * 128)


def normalised_gradients(g, x):
    zeros, ones = torch.zeros(4, device=x.device), torch.ones(4, device=x.device)
    gradients = torch.ops.aten.native_batch_norm_backward
    return gradients(g * 2, x * 2, ones, None, None, zeros, ones, True, 1e-5, [True, True, True])[0] * 3


normalise = torch.nn.BatchNorm2d(4).eval()
HEADS, FEW, ROW = (1, 4, 8, 16), (1, 2, 8, 16), (64, 64)
CACHE, TOKEN, AT = (1, 2, 64, 16), (1, 2, 1, 16), torch.tensor([3])
WIDE = torch.linspace(0, 1, 64 * 64, dtype=torch.float64).view(ROW)
BYTES = torch.arange(-64, 64, dtype=torch.int8).view(2, 64)

CASES = {
    "bound_attention": Case(of_positions, [(1, 2, 4, 16), CACHE, CACHE, torch.arange(4)], "tasks"),
    "canonicalise": Case(lambda x: x.sin().view(-1).view(8, 64).unsqueeze(0).squeeze(0) + 1.0, [(8, 64)], "tasks"),
    "cse": Case(lambda x: x.exp().sum() + x.exp().mean(), [ROW], "tasks", generate=False, exact=True),
    "dce": Case(by_hand, [HEADS] * 3, "tasks", exact=True),
    "detach_creations": Case(lambda x: torch.zeros_like(x.exp()) + x, [ROW], "bytes", exact=True),
    "drop_head_copies": Case(by_rows, [(1, 100, 8, 64)] * 3, "copied", exact=True),
    "expand_batch_norm": Case(lambda x: normalise(x) * 2, [(2, 4, 8, 8)], "bytes"),
    "expand_batch_norm_training": Case(normalised_gradients, [(2, 4, 8, 8)] * 2, "bytes"),
    "expand_pointwise_convolutions": Case(
        lambda x, w: torch.conv2d(x.permute(0, 3, 1, 2), w).relu(), [(2, 6, 6, 16), (32, 16, 1, 1)], "tasks"
    ),
    "fold_constants": Case(lambda x: x + torch.arange(64).float().cos(), [ROW], "tasks", generate=False, exact=True),
    "fold_conversions": Case(lambda x, y: x * y.double(), [WIDE, ROW], "copied", generate=False, exact=True),
    "fold_dequantised": Case(lambda x, codes: x @ codes.float().t(), [(4, 64), BYTES], "bytes"),
    "fold_repeat_kv": Case(grouped, [HEADS, FEW, FEW], "copied"),
    "fold_shifted_products": Case(through_unsigned, [BYTES, BYTES], "tasks", exact=True),
    "fuse_attention": Case(by_hand, [HEADS] * 3, "tasks"),
    "merge_copies": Case(
        lambda x: x.exp().t().contiguous().t().contiguous().cumsum(0), [(8, 4)], "copied", generate=False, exact=True
    ),
    "recompute_parts": Case(lambda x, y: torch.cat([x * y] * 2, 1), [ROW, ROW], "copied", generate=False, exact=True),
    "reinplace_inputs": Case(updated, [CACHE, TOKEN, AT], "copied", exact=True),
    "reinplace_intermediates": Case(
        lambda x, at, y: x.cumsum(0).index_copy(0, at, y) * 2, [ROW, AT, (1, 64)], "copied", generate=False, exact=True
    ),
    "remove_copies": Case(lambda x: x.exp().clone().cumsum(0), [ROW], "copied", generate=False, exact=True),
    "remove_noops": Case(
        lambda x: torch.ops.aten.slice_scatter(x.neg(), x.cumsum(0).repeat(1, 1)).abs(), [ROW], "copied", exact=True
    ),
    "sink_cat": Case(rotated, [(1, 2, 8, 64), (1, 1, 8, 64)], "copied", generate=False, exact=True),
    "straighten": Case(
        lambda x: (x.transpose(1, 2) + 1).contiguous().view(2, -1) * 2, [(2, 8, 16)], "copied", exact=True
    ),
}
RIGHT_NOT_FAST = {"hoist_copies"}  # without it, an error could lose a write of the user's program


def test_every_pass_has_a_case() -> None:
    assert set(CASES) | RIGHT_NOT_FAST == set(pass_names())


def run(case: Case, off: Sequence[str], place: str) -> tuple[Any, dict[str, int]]:
    torch.manual_seed(0)
    inputs = [shape if isinstance(shape, torch.Tensor) else torch.randn(shape) for shape in case.shapes]
    given, expected = [[x.clone().to(place) for x in inputs] for _ in range(2)]
    result = compile_ex(case.fn, options={"disable_passes": off, "generate_code": case.generate})(*given)
    torch.testing.assert_close(result, case.fn(*expected), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(given, expected, rtol=1e-5, atol=1e-5)
    (artifact,) = npugraph.artifacts()
    npugraph.reset()
    return (result, given), {
        "tasks": len(artifact.tasks),
        "bytes": sum(task.bytes_read + task.bytes_written for task in artifact.tasks),
        "copied": artifact.memory["copied_bytes_per_replay"],
    }


@pytest.mark.feature("12e.2", "2.09", "2.13", "2.14", "2.17")
@pytest.mark.parametrize("name", CASES)
def test_it_makes_a_program_better(name) -> None:
    compare(CASES[name], name)


def compare(case: Case, name: str, place: str = "cpu") -> None:
    """Compares results and counts of the program with the pass ``name`` and without it."""
    with_it, measured = run(case, [], place)
    without, before = run(case, [name], place)
    torch.testing.assert_close(with_it, without, **({"rtol": 0, "atol": 0} if case.exact else {}))
    assert measured[case.less] < before[case.less], (measured, before)


def test_copies_that_stay_are_where_the_program_wrote() -> None:
    order = {}
    for off in ([], ["hoist_copies"]):
        compiled = compile_ex(kept_back, options={"disable_passes": off, "generate_code": False})
        given, expected = [[torch.ones(4, 4), torch.ones(4, 4)] for _ in range(2)]
        assert_same((compiled(*given), given), (kept_back(*expected), expected))
        (artifact,) = npugraph.artifacts()
        order[len(off)] = [task.name for task in artifact.tasks]
        npugraph.reset()
    assert order[0].index("aten.copy_") < order[0].index("aten.cumsum.out")
