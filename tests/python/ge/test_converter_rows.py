# SPDX-License-Identifier: Apache-2.0
"""Calls of operators that have converters, drawn from PyTorch's operator database: the operators of Ascend IR that
``docs/ge_converters.md`` lists, and the values and strides of eager mode, for fixed sizes and for symbols."""

from __future__ import annotations

import collections
import random
import runpy
from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from npugraph._C import OperatorRefused
from npugraph.ge.converters import MissingConverters, absent, ascend_rows, ascend_writes, registered, rows
from tests.python.forks import run_python
from tests.python.ge.converter_calls import Call, Guarded, calls_of_samples, check, converted, other_calls
from tests.python.op_samples import OPERATORS, UNCOMPARED

ROOT = Path(__file__).parents[3]
SCRIPT = runpy.run_path(str(ROOT / "scripts/ge_converters"))
LISTED = SCRIPT["rows_of_page"]()
ENTRIES = [name for name in OPERATORS if name not in UNCOMPARED]
FEW = random.Random(11).sample(ENTRIES, 24)
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
# Rows with element types of which no sample is computed, and why.
NOT_COMPUTED = {
    "aten.histc.default": "the host computes half types in another type than Ascend",
}


def check_calls(calls: Iterable[Call]) -> dict[str, set[torch.dtype]]:
    """Checks calls. Returns of each operator the types of which a call was computed and those of which none was."""
    tried, computed = collections.defaultdict(set), collections.defaultdict(set)
    for call in calls:
        name = str(call.target)
        dtype = next((x.dtype for x in call.tensors), torch.float32)
        for dynamic in (False, True):
            try:
                outcome = converted(call, dynamic=dynamic)
                assert outcome.types <= LISTED[name].types, f"{name} becomes {sorted(outcome.types)}"
                assert SCRIPT["road_of"](outcome.hosts) in LISTED[name].roads, name
                check(call, outcome)
                computed[name].add(dtype)
            except (Guarded, MissingConverters, OperatorRefused):
                tried[name].add(dtype)
    return {name: tried[name] - computed[name] for name in tried}


def test_the_page_has_all_converters() -> None:
    """A process of its own has no converters of other tests."""
    text = "import torchair; from npugraph.ge.converters import registered; print(*registered())"
    product = run_python("-c", text, check=True).stdout.split()
    forms = {ascend_writes.form_name(text.partition(":")[0]) for text in ascend_writes.ROWS}
    assert LISTED.keys() == set(product) - forms, "run scripts/npu_python scripts/ge_converters"
    text = SCRIPT["PAGE"].read_text()
    for name, reason in absent.ABSENT.items():
        assert f"| `{name}` | | missing: {reason} |" in text
    for row in (*rows.ROWS, *ascend_rows.ROWS, *ascend_writes.ROWS):
        target, _, rest = row.partition(": ")
        assert rest.split()[0] in LISTED[target].types, target


@pytest.mark.parametrize("name", FEW)
def test_samples_of_a_few_entries(name: str) -> None:
    check_calls(calls_of_samples(name, set(registered()), 1))


def test_calls_that_samples_do_not_make() -> None:
    refused = check_calls(call for call in other_calls() if call.tensors[:1] and call.tensors[0].dtype != torch.float16)
    assert {name for name, dtypes in refused.items() if torch.float32 in dtypes} <= {"aten.linalg_vector_norm.default"}


@pytest.mark.long
@pytest.mark.parametrize("name", ENTRIES)
def test_samples_of_all_entries(name: str) -> None:
    refused = check_calls(calls_of_samples(name, set(registered()), 8))
    floats = {(row, dtype) for row, dtypes in refused.items() for dtype in dtypes if dtype in FLOATS}
    assert not {(row, dtype) for row, dtype in floats if row not in NOT_COMPUTED}
