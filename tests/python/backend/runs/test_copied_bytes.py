# SPDX-License-Identifier: Apache-2.0
"""``copied_bytes_per_replay`` also counts the bytes that are copied on the way into and out of tasks."""

from __future__ import annotations

import pytest
import torch

import npugraph
from tests.python.backend.checks import assert_same, check, compile_ex


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


kept: list[torch.Tensor] = []


@torch.library.custom_op("copied_bytes_tests::transposed", mutates_args=())
def transposed(x: torch.Tensor) -> torch.Tensor:
    """Returns other strides than those of ``x``, which its fake implementation promises."""
    return (x * 2).t().contiguous().t()


transposed.register_fake(lambda x: torch.empty_like(x))


@torch.library.custom_op("copied_bytes_tests::keeping", mutates_args=())
def keeping(x: torch.Tensor) -> torch.Tensor:
    kept[:] = [x]
    return x * 2


keeping.register_fake(lambda x: torch.empty_like(x))


@torch.library.custom_op("copied_bytes_tests::faithful", mutates_args=())
def faithful(x: torch.Tensor) -> torch.Tensor:
    return x * 2


faithful.register_fake(lambda x: torch.empty_like(x))


def copied(fn, *make, **arguments) -> int:
    (artifact,) = check(fn, *make, **arguments)
    return artifact.memory["copied_bytes_per_replay"]


def matrix():
    return (torch.randn(4, 6),)


def test_results_that_are_as_promised_are_not_copied() -> None:
    assert copied(lambda x: faithful(x) + 1, matrix) == 0


def test_results_with_other_strides() -> None:
    compiled = compile_ex(lambda x: transposed(x) + 1)
    x = torch.randn(4, 6)
    for _ in range(2):
        assert_same(compiled(x), x * 2 + 1)
    (artifact,) = npugraph.artifacts()
    assert artifact.memory["copied_bytes_per_replay"] == 4 * 6 * 4


def test_arguments_that_an_operator_keeps() -> None:
    assert copied(lambda x: keeping(x) + 1, matrix) == 4 * 6 * 4
    kept.clear()


def test_only_the_latest_run_counts() -> None:
    compiled = compile_ex(lambda x: transposed(x) + 1, dynamic=True)
    for rows in (4, 9):
        compiled(torch.randn(rows, 6))
        (artifact,) = npugraph.artifacts()
        assert artifact.memory["copied_bytes_per_replay"] == rows * 6 * 4


def test_inputs_that_are_lazily_conjugated() -> None:
    def made():
        return (torch.randn(3, 4, dtype=torch.complex64).conj(),)

    assert copied(lambda x: x * 2j, made) == 3 * 4 * 8


def test_constants_that_are_returned() -> None:
    def fn(x):
        return x + 1, torch.arange(5)

    assert copied(fn, matrix) in (0, 5 * 8)
    (artifact,) = npugraph.artifacts()
    returned = "constant" in artifact.program()
    assert artifact.memory["copied_bytes_per_replay"] == (5 * 8 if returned else 0)


def test_results_of_python_tasks_that_somebody_holds() -> None:
    def fn(x):
        return torch.cond((x.sum() > 100).float(), lambda t: t.sin(), lambda t: t.clone(), (x,)) + 1

    with pytest.warns(npugraph.NpugraphWarning, match="cond"):
        compiled = compile_ex(fn)
        compiled(torch.ones(3))
    (artifact,) = npugraph.artifacts()
    assert artifact.memory["copied_bytes_per_replay"] == 0


ROWS, COLUMNS = 32, 64


def wide():
    return torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)


def test_a_copy_counts_beside_what_is_computed() -> None:
    assert copied(lambda x, y: (x * 2 + y, x.clone()), wide) == ROWS * COLUMNS * 4


def test_what_is_computed_and_then_moved_is_no_copy() -> None:
    assert copied(lambda x, y: torch.cat([x * 2, y + 1], 1), wide) == 0


def keys():
    return (torch.randn(1, 2, 8, 16),)


def test_repeated_heads_count() -> None:
    """Repeats the keys of 2 heads for 4 heads that share them."""

    def repeat(k):
        return k[:, :, None].expand(1, 2, 2, 8, 16).reshape(1, 4, 8, 16) * 1.5, k.repeat_interleave(2, 1).clone()

    assert copied(repeat, keys) == 4 * 8 * 16 * 4
