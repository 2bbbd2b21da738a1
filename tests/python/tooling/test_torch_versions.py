# SPDX-License-Identifier: Apache-2.0
"""npugraph takes the modules for the torch that runs, and names those that it has to any other torch."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from npugraph import _C, torch_versions
from tests.python.forks import run_python

HERE = torch.__version__.partition("+")[0]
MAJOR, MINOR, _ = HERE.split(".", 2)


def importing(version: str) -> str:
    return run_python("-c", f"import torch\ntorch.__version__ = {version!r}\nimport npugraph").stderr


@pytest.mark.parametrize("version", [HERE, f"{MAJOR}.{MINOR}.7+cu130", f"{MAJOR}.{MINOR}.0a0+git1"])
def test_any_build_of_the_same_minor_version_is_taken(version: str) -> None:
    assert importing(version) == ""


@pytest.mark.parametrize("version", [f"{MAJOR}.{int(MINOR) + 9}.0", "2.9.1+cpu", "1.13.1"])
def test_another_torch_gets_one_sentence(version: str) -> None:
    *_, line = importing(version).splitlines()
    found = re.search(r"is built for torch (.*), and this is torch (.*): install (.*), or build", line)
    assert found and f"{MAJOR}.{MINOR}" in found[1] and found[2] == version and f"torch=={MAJOR}.{MINOR}.*" in found[3]


def test_modules_come_from_the_folder_of_the_torch_that_runs() -> None:
    assert Path(_C.__file__).parent.name == f"torch-{MAJOR}.{MINOR}"


def test_a_tree_that_is_not_built_says_so(tmp_path) -> None:
    with pytest.raises(ImportError, match=r"is not built: build it for torch 2\.13$"):
        torch_versions.modules(tmp_path, "2.13.0+cpu")


def test_a_package_for_several_versions_has_a_folder_for_each(tmp_path) -> None:
    for version in ("2.13", "2.14"):
        (tmp_path / f"torch-{version}").mkdir()
    assert torch_versions.modules(tmp_path, "2.14.1+cu130") == tmp_path / "torch-2.14"
    with pytest.raises(
        ImportError, match=r"for torch 2\.13 and 2\.14, and this is torch 2\.15\.0: install torch==2\.13"
    ):
        torch_versions.modules(tmp_path, "2.15.0")
