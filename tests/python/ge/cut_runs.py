# SPDX-License-Identifier: Apache-2.0
"""Compiled functions of which some operators run eagerly, compared with eager mode."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from npugraph.ge.backend.npu_backend import get_npu_backend
from npugraph.log import logger

SUMMARY = re.compile(r"They run eagerly, in (\d+) parts? of the graph\. Graphs of GE for the rest: (.*)\. With option")


class Run:
    """A compiled function, and what its calls logged."""

    def __init__(self, function: Callable[..., Any], caplog: pytest.LogCaptureFixture, **how: Any) -> None:
        torch._dynamo.reset()
        self.function = function
        self.fast = torch.compile(function, backend=get_npu_backend(), **how)
        self._caplog = caplog

    def check(self, *inputs: Any) -> Any:
        """Compares a call with eager mode bit for bit: results, their strides and written inputs. Returns the
        results."""
        ours, theirs = (pytree.tree_map_only(torch.Tensor, torch.clone, inputs) for _ in range(2))
        torch.manual_seed(7)
        expected = self.function(*theirs)
        torch.manual_seed(7)
        with self._caplog.at_level(logging.INFO, logger.name):
            found = self.fast(*ours)
        pytree.tree_map(_check_same, (found, ours), (expected, theirs))
        return found

    @property
    def warnings(self) -> list[str]:
        return [record.getMessage() for record in self._caplog.records if record.levelno == logging.WARNING]

    @property
    def num_graphs(self) -> int:
        """How many graphs of GE were compiled."""
        return sum(record.getMessage().startswith("start compile graph: ") for record in self._caplog.records)

    @property
    def num_eager_parts(self) -> int:
        (warning,) = self.warnings
        found = SUMMARY.search(warning)
        assert found is not None, warning
        return int(found[1])


def _check_same(found: Any, expected: Any) -> None:
    if isinstance(expected, torch.Tensor):
        assert torch.equal(found, expected) and found.dtype == expected.dtype and found.stride() == expected.stride()
    else:
        assert found == expected
