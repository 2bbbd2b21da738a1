# SPDX-License-Identifier: Apache-2.0
"""docs/npu_operators.md, which scripts/npu_operators writes."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import torch

from npugraph import _ascend as device

KEYS = ("CPU", "PrivateUse1", "BackendSelect", "CompositeImplicitAutograd", "CompositeExplicitAutograd")
SCRIPT = runpy.run_path(str(Path(__file__).parents[4] / "scripts/npu_operators"))


def test_the_page_is_current() -> None:
    assert SCRIPT["PAGE"].read_text() == SCRIPT["page"](), (
        "docs/npu_operators.md is not current: run scripts/npu_python scripts/npu_operators"
    )


def test_states_say_what_calls_do() -> None:
    rows = [(row, SCRIPT["state_of"](row)) for row in device.operators()]
    assert {"parts", "whole", "sizes"} <= {state for _, state in rows}
    for row, state in rows:
        has = [torch._C._dispatch_has_kernel_for_dispatch_key(row.name, key) for key in KEYS]
        assert any(has) == (state in ("parts", "whole")), row.name
        assert row.definition.endswith("."), row.name


def test_operators_that_compute_are_named_in_tests() -> None:
    """Names have to be whole words of the test files, so that strings that are pieced together do not count. One name
    stands for all overloads."""
    folder = Path(__file__).parents[1]
    words = {word for file in folder.rglob("*.py") for word in re.findall(r"\w+", file.read_text())}
    without = device.Computation.SIZES
    computing = {re.split(r"::|\.", row.name)[1] for row in device.operators() if row.computation != without}
    assert sorted(computing - words) == []
