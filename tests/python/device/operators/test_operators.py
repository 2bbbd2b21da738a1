# SPDX-License-Identifier: Apache-2.0
"""Every operator of PyTorch's database on npu against cpu: some samples in five types, and in ``make long`` all samples
in all types."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.python.device.op_database import REFUSED, compare_operator
from tests.python.op_samples import OPERATORS, UNCOMPARED

DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.complex64,
    torch.complex128,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
# The number of samples of each operator in `make test`.
SOME = {torch.float32: 2, torch.bfloat16: 1, torch.complex64: 1, torch.int64: 1, torch.bool: 1}
PARTS = 8
NAMES = sorted(set(OPERATORS) - set(UNCOMPARED) - set(REFUSED))


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Samples are small, and threads would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def compare_part(part: int, dtype: torch.dtype, limit: int | None = None) -> None:
    failed = {}
    for name in NAMES[part::PARTS]:
        if dtype not in OPERATORS[name].supported_dtypes("cpu"):
            continue
        try:
            compare_operator(name, dtype, limit)
        except Exception as error:
            failed[name] = f"{type(error).__name__}: {error}"
    assert not failed, "\n".join(f"{name}: {text}" for name, text in failed.items())


@pytest.mark.parametrize("dtype", SOME, ids=str)
@pytest.mark.parametrize("part", range(PARTS))
def test_some_samples(part: int, dtype: torch.dtype):
    compare_part(part, dtype, SOME[dtype])


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("part", range(PARTS))
def test_all_samples(part: int, dtype: torch.dtype):
    compare_part(part, dtype)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_refused_raises(name: str):
    with pytest.raises((RuntimeError, NotImplementedError)):
        compare_operator(name, torch.float32)


def test_the_exceptions_are_few():
    assert len(REFUSED) == 4 and set(REFUSED) <= set(OPERATORS)
