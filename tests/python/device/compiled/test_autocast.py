# SPDX-License-Identifier: Apache-2.0
"""Autocast on npu: which operators run in which type."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.testing._internal.autocast_test_lists import AutocastTestLists, TestAutocast

from tests.python.device import autocast_on_cpu

# Lists of torch's own tests of autocast, with the dtype of the results and the module of the operators.
_LISTS = {
    "torch_fp16": (torch.float16, torch),
    "torch_fp32": (torch.float32, torch),
    "torch_need_autocast_promote": (torch.float32, torch),
    "torch_expect_builtin_promote": (torch.float32, torch),
    "nn_fp16": (torch.float16, torch._C._nn),
    "nn_fp32": (torch.float32, torch._C._nn),
    "linalg_fp16": (torch.float16, torch._C._linalg),
    "methods_fp16": (torch.float16, None),
    "methods_fp32": (torch.float32, None),
    "methods_expect_builtin_promote": (torch.float32, None),
}
_OTHERS = ("cudnn", "miopen", "_thnn")  # operators of other devices


def _rows(name: str) -> list[tuple[str, Any, dict[str, Any], torch.dtype]]:
    """Returns the operators of a list, with their arguments, keywords and the dtype of their results."""
    expected = _LISTS[name][0]
    rows = []
    for op, args, *more in getattr(AutocastTestLists(torch.device("npu")), name):
        if op.startswith(_OTHERS) or not isinstance(args, tuple):
            continue
        given = next((one for one in more if isinstance(one, dict)), {})
        rows.append((op, args, given, next((one for one in more if isinstance(one, torch.dtype)), expected)))
    return rows


@pytest.mark.parametrize("name", _LISTS)
def test_lists_of_the_tests_of_torch(name: str):
    run_as, module = _LISTS[name]
    rows = [row for row in _rows(name) if hasattr(module, row[0]) or hasattr(torch.Tensor, row[0])]
    assert rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op, args, kwargs, out_type in rows:
            TestAutocast()._run_autocast_outofplace(op, args, run_as, "npu", out_type, module, kwargs, torch.float16)


def test_operators_run_in_their_types_under_autocast():
    a, b = torch.randn(4, 4, device="npu"), torch.randn(4, 4, device="npu")
    with torch.autocast("npu", dtype=torch.bfloat16):
        assert torch.mm(a, b).dtype == torch.bfloat16
        assert torch.exp(torch.mm(a, b)).dtype == torch.float32
        assert torch.npu.is_autocast_enabled() and torch.npu.get_autocast_dtype() == torch.bfloat16
        with torch.autocast("npu", enabled=False):
            assert torch.mm(a, b).dtype == torch.float32
    assert torch.mm(a, b).dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):  # autocast of another device
        assert torch.mm(a, b).dtype == torch.float32


def test_autocast_has_the_lists_that_torch_has_for_devices():
    wanted = set().union(*autocast_on_cpu.lists_of_devices().values())
    more = autocast_on_cpu.registered("AutocastPrivateUse1") - wanted
    assert not wanted - autocast_on_cpu.registered("AutocastPrivateUse1")
    # Torch lists these operators apart from the others.
    assert more == {"aten::binary_cross_entropy", "aten::norm.Scalar", "aten::norm.ScalarOpt_dim"}


def test_autocast_refuses_what_is_unsafe():
    x = torch.rand(3, device="npu")
    with torch.autocast("npu"), pytest.raises(RuntimeError, match=r"binary_cross_entropy .* unsafe under autocast"):
        torch.nn.functional.binary_cross_entropy(x, x)
