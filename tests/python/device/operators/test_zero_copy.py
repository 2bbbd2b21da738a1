# SPDX-License-Identifier: Apache-2.0
"""No operator on npu copies bytes to run its CPU kernel: torch's profiler sees no copies but those that it sees on
cpu."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from tests.python.device.op_database import REFUSED
from tests.python.device.tensors import tensors, to_npu
from tests.python.op_samples import OPERATORS, UNCOMPARED, samples

COPIES = {"aten::copy_", "aten::clone", "aten::_to_copy", "aten::to", "aten::contiguous", "aten::_copy_from"}
NAMES = sorted(set(OPERATORS) - set(UNCOMPARED) - set(REFUSED))

# Operators that torch computes in another way on cpu than on every other device, with other copies.
OTHER_WAYS = {"nanquantile", "quantile", "nn_functional_ctc_loss"}
# These run in Python, and move numbers from the host to the device.
MOVE_NUMBERS = {"__getitem__", *(name for name in NAMES if name.startswith("masked_"))}


def copies_of(function: Any, arguments: Any) -> tuple[Counter[str], Any]:
    value, args, kwargs = arguments
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        result = function(value, *args, **kwargs)
    copies = Counter(event.name for event in profiled.events() if event.name in COPIES)
    copies["aten::copy_"] -= copies.pop("aten::_copy_from", 0)  # a copy on npu calls one on cpu
    return +copies, result


def check(name: str) -> int:
    done = 0
    for sample in itertools.islice(samples(name, torch.float32), 1):
        arguments = (sample.input, sample.args, sample.kwargs)
        moved = to_npu(arguments)
        try:
            cpu, _ = copies_of(OPERATORS[name], arguments)
        except Exception:
            continue
        npu, result = copies_of(OPERATORS[name], moved)
        assert npu <= cpu, f"{name}: copies {npu} on npu, {cpu} on cpu"
        assert all(one.is_npu for one in tensors(result))
        done += 1
    return done


PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_no_bytes_are_copied(part: int) -> None:
    failed, done = {}, 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in NAMES[part::PARTS]:
            if name in OTHER_WAYS | MOVE_NUMBERS or torch.float32 not in OPERATORS[name].supported_dtypes("cpu"):
                continue
            try:
                done += check(name)
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {error}"
    assert not failed, "\n".join(failed.values())
    assert done >= 100
