# SPDX-License-Identifier: Apache-2.0
"""Compiles operators of PyTorch's operator database and compares them with eager: some of them, and in ``make long``
all."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import npugraph
from tests.python.backend.checks import compile_ex
from tests.python.op_samples import OPERATORS, UNCOMPARED, samples

NAMES = sorted(name for name in set(OPERATORS) - set(UNCOMPARED) if OPERATORS[name].supported_dtypes("cpu"))
PARTS = 16


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def comparable(x: torch.Tensor) -> torch.Tensor:
    """Returns ``x``, in float32 if its numbers are floats of 8 bits, because torch does not compare those."""
    return x.float() if x.is_floating_point() and x.itemsize == 1 else x


def compare(name: str) -> bool:
    """Compares a compiled call with eager, for the first sample that eager accepts. Returns whether there is one."""
    op = OPERATORS[name]
    dtypes = op.supported_dtypes("cpu")
    dtype = torch.float32 if torch.float32 in dtypes else next(iter(dtypes))
    for sample in itertools.islice(samples(name, dtype), 3):
        values = (sample.input, sample.args, sample.kwargs)
        own = pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, values)
        torch.manual_seed(0)
        try:
            want = op.op(values[0], *values[1], **values[2])
        except Exception:
            continue

        def call(x: Any, args: Any, kwargs: Any) -> Any:
            return op.op(x, *args, **kwargs)

        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", npugraph.NpugraphWarning)
            warnings.simplefilter("error", npugraph.DefectWarning)
            got = compile_ex(call, fullgraph=False, dynamic=False)(*own)
        assert [x.dtype for x in tensors(got)] == [x.dtype for x in tensors(want)]
        got, want = (pytree.tree_map_only(torch.Tensor, comparable, values) for values in (got, want))
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4, equal_nan=True)
        return True
    return False


def compare_all(names: list[str]) -> None:
    failed, compared = {}, 0
    for name in names:
        torch._dynamo.reset()
        try:
            with torch.no_grad():
                compared += compare(name)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
    npugraph.reset()
    assert not failed, "\n".join(f"{name}: {text}" for name, text in failed.items())
    assert 2 * compared > len(names)


@pytest.mark.feature("10.04")
def test_some_operators() -> None:
    compare_all(NAMES[::PARTS])


@pytest.mark.long
@pytest.mark.parametrize("part", range(1, PARTS))
def test_all_operators(part: int) -> None:
    compare_all(NAMES[part::PARTS])
