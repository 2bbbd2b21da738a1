# SPDX-License-Identifier: Apache-2.0
"""Operators that check or print."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.python.operator_calls import Call

aten = torch.ops.aten


def calls() -> Iterator[Call]:
    yield aten._assert_async.default, (torch.tensor(True),), {}
    yield aten._assert_async.msg, (torch.tensor(True), "must hold"), {}
    yield aten._assert_scalar.default, (True, "must hold"), {}
    yield aten._assert_tensor_metadata.default, (torch.ones(2, 3), None, None, torch.float32), {}
    yield aten._print.default, ("text",), {}
    for token in (torch.ones(()), torch.ones(3, 4), torch.ones(3, 4).t()):
        yield aten._functional_assert_async.msg, (torch.tensor(True), "must hold", token), {}
        yield aten._functional_assert_scalar.default, (True, "must hold", token), {}
    # Fake tensors return the token itself from an assertion over a tensor, where eager makes a copy.
    yield aten._functional_assert_scalar.default, (True, "must hold", torch.ones(3, 4)[:, ::2]), {}
