# SPDX-License-Identifier: Apache-2.0
"""scripts/join_wheels makes one wheel for two versions of torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

SCRIPT = Path(__file__).parents[3] / "scripts/join_wheels"
INFO = "npugraph-0.1.0.dist-info"


def wheel(folder: Path, torch: str, core: str = "core") -> Path:
    path = folder / torch / "npugraph-0.1.0-cp311-cp311-linux_x86_64.whl"
    path.parent.mkdir()
    files = {
        "npugraph/libnpugraph_core.so": core,
        f"npugraph/torch-{torch}/_C.so": f"module for {torch}",
        f"{INFO}/METADATA": f"Name: npugraph\nVersion: 0.1.0\nRequires-Dist: torch=={torch}.*\nRequires-Dist: numpy\n",
        f"{INFO}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n",
        f"{INFO}/RECORD": "",
    }
    with ZipFile(path, "w") as content:
        for name, text in files.items():
            content.writestr(name, text)
    return path


def join(first: Path, other: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, first, other], capture_output=True, text=True)


def test_the_wheel_has_the_modules_of_both(tmp_path) -> None:
    first = wheel(tmp_path, "2.13")
    assert join(first, wheel(tmp_path, "2.14")).returncode == 0
    with ZipFile(first) as content:
        assert content.read("npugraph/torch-2.13/_C.so") == b"module for 2.13"
        assert content.read("npugraph/torch-2.14/_C.so") == b"module for 2.14"
        required = [line for line in content.read(f"{INFO}/METADATA").decode().splitlines() if "Requires" in line]
        assert required == ["Requires-Dist: torch>=2.13,<2.15", "Requires-Dist: numpy"]
        assert "npugraph/torch-2.14/_C.so,sha256=" in content.read(f"{INFO}/RECORD").decode()


def test_modules_of_another_core_are_refused(tmp_path) -> None:
    done = join(wheel(tmp_path, "2.13"), wheel(tmp_path, "2.14", core="another"))
    assert done.returncode == 1
    assert "has another npugraph/libnpugraph_core.so than" in done.stderr


def test_versions_with_one_between_them_are_refused(tmp_path) -> None:
    done = join(wheel(tmp_path, "2.13"), wheel(tmp_path, "2.15"))
    assert done.returncode == 1
    assert "the requirement cannot say torch 2.13 and 2.15 alone" in done.stderr
