# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own operator database, and the samples of one operator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core

OPERATORS = {op.formatted_name: op for op in op_db}

# Operators whose results cannot be compared, or that need another machine: name -> reason.
UNCOMPARED: dict[str, str] = {
    **dict.fromkeys(
        ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
        "returns memory as it is",
    ),
    **dict.fromkeys([name for name in OPERATORS if name.startswith("jiterator")], "compiles CUDA source"),
}


@contextlib.contextmanager
def _outside_of_test_cases() -> Iterator[None]:
    """Switches off a search for a ``unittest.TestCase``, of which there is none. Each sample would look through the
    whole stack and its source files, which takes 50 ms under pytest, longer than the operator."""
    with (
        mock.patch.object(common_utils, "extract_test_fn", lambda: None),
        mock.patch.object(core, "extract_test_fn", lambda: None),
    ):
        yield


def samples(name: str, dtype: torch.dtype, **options: Any) -> Iterator[core.SampleInput]:
    """Yields the samples on the CPU, the same ones at every call. ``options`` are those of ``OpInfo.sample_inputs``."""
    with _outside_of_test_cases():
        torch.manual_seed(0)
        rest = OPERATORS[name].sample_inputs("cpu", dtype, **options)
    while True:
        with _outside_of_test_cases():
            sample = next(rest, None)
        if sample is None:
            return
        yield sample
