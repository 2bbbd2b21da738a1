# SPDX-License-Identifier: Apache-2.0
"""The definition of the operators of ``_C_ascend``, and those that ask the device."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import npugraph_vllm.ascend_c  # noqa: F401
import pytest
import torch
from npugraph_vllm import ascend_operators

from tests.python.device.npu_operators import check, integers, normal

FILES = sorted((Path(ascend_operators.__file__).parent / "schemas").glob("*.txt"))
NEWEST = FILES[-1].read_text().splitlines()
ops = torch.ops._C_ascend


def schema_of(line: str) -> torch.FunctionSchema:
    name, _, overload = line.partition("(")[0].partition(".")
    return getattr(getattr(ops, name), overload or "default")._schema


@pytest.mark.parametrize("line", NEWEST, ids=lambda line: line.partition("(")[0])
def test_schemas_are_those_of_the_newest_version(line: str) -> None:
    assert schema_of(line) == torch._C.parse_schema(f"_C_ascend::{line}")


def test_operators_of_all_versions_are_defined_without_vllm_ascend() -> None:
    for path in FILES:
        lines = path.read_text().splitlines()
        assert lines and all(map(schema_of, lines)), path


def of_version(version: str, folder: Path, expression: str) -> str:
    """The value of an expression where that version of vllm-ascend is installed."""
    info = folder / f"vllm_ascend-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm_ascend\nVersion: {version}\n")
    code = f"import torch, npugraph_vllm.ascend_c; ops = torch.ops._C_ascend; print({expression})"
    paths = [str(folder), str(Path(ascend_operators.__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return run.stdout.strip()


@pytest.mark.parametrize("version", ["0.14.0rc1", "0.15.0", "0.30.0rc2", "0.31.1"])
def test_schemas_are_those_of_the_installed_version(version: str, tmp_path: Path) -> None:
    returns = "len(ops.npu_sparse_flash_attention.default._schema.returns)"
    only_old, only_new = "hasattr(ops, 'batch_matmul_transpose')", "hasattr(ops, 'device_print')"
    is_old = version < "0.30"
    want = f"{1 if is_old else 3} {is_old} {not is_old}"
    assert of_version(version, tmp_path, f"{returns}, {only_old}, {only_new}") == want


@pytest.mark.parametrize("name", ["rotary_embedding", "get_masked_input_and_mask", "bgmv_expand", "sgmv_expand"])
def test_vllm_ascend_adds_no_fake_kernels(name: str) -> None:
    """It registers its own for these operators if there are none."""
    assert f"_C_ascend::{name}" in torch._C._dispatch_get_registrations_for_dispatch_key("Meta")


def test_absent_operator_says_who_needs_it() -> None:
    message = "npugraph-vllm does not have the operator _C_ascend::kda_layout_swap12. .* needed by: Kimi"
    for device in ("cpu", "npu"):
        with pytest.raises(NotImplementedError, match=message):
            ops.kda_layout_swap12(torch.ones(2, device=device))


def masked_input(tokens, start, end, padding, added_start, added_end):
    """Takes one token after the other: rows of the original vocabulary, padding, and added tokens."""
    rows = [*range(start, end), *[None] * padding, *range(added_start, added_end)]
    found = [rows.index(token) if token in rows else None for token in tokens.tolist()]
    return torch.tensor([row or 0 for row in found]), torch.tensor([row is None for row in found])


@pytest.mark.parametrize("count", [1, 64])
def test_get_masked_input_and_mask(count: int) -> None:
    args = integers(0, 48, count), 8, 20, 4, 30, 36
    check(ops.get_masked_input_and_mask, args, masked_input, dynamic=False)


def test_weak_reference_shares_memory() -> None:
    x = torch.ones(3, device="npu")
    reference = ops.weak_ref_tensor(x)
    x.add_(1)
    assert reference.data_ptr() == x.data_ptr() and reference.tolist() == [2, 2, 2]


def test_device_print(capfd: pytest.CaptureFixture[str]) -> None:
    ops.device_print("before the layer")
    ops.device_print_tensor(torch.arange(3, device="npu"))
    assert re.search(r"before the layer\n.*\[0, 1, 2\]", capfd.readouterr().out)


def test_questions_to_the_device_are_answered() -> None:
    assert ops.get_physical_device_id(0) == 0
    assert ops.get_npu_storage_shape(torch.empty(2, 3, device="npu")) == [2, 3]
    assert ops.get_npu_view_from_cpu_tensor(torch.empty(2)) is None


def top_k_top_p(logits, p=None, k=None):
    out = logits.clone()
    for row, number in zip(out, [None] * len(out) if k is None else k.tolist(), strict=True):
        if number is not None:
            row[row < row.sort().values[-number]] = -torch.inf
    for row, share in zip(out, [None] * len(out) if p is None else p.tolist(), strict=True):
        if share is not None:
            order = row.argsort()
            sums = row.softmax(0)[order].cumsum(0)
            row[order[:-1][sums[:-1] <= 1 - share]] = -torch.inf
    return out


@pytest.mark.parametrize("rows", [1, 5])
def test_top_k_top_p(rows: int) -> None:
    logits, k, p = normal(rows, 50), integers(1, 50, rows, dtype=torch.int32), normal(rows, seed=1).sigmoid()
    check(ops.npu_apply_top_k_top_p, (logits,), top_k_top_p, k=k, p=p, dynamic=False)
    check(ops.npu_apply_top_k_top_p, (logits,), top_k_top_p, k=k, dynamic=False, compiled=False)
    check(ops.npu_apply_top_k_top_p, (logits,), top_k_top_p, p=p, dynamic=False, compiled=False)
