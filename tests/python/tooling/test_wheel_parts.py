# SPDX-License-Identifier: Apache-2.0
"""scripts/join_wheels makes one wheel for two versions of torch; scripts/split_wheel gives the device its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

SCRIPTS = Path(__file__).parents[3] / "scripts"
INFO = "npugraph-0.1.0.dist-info"
TAG = "cp311-cp311-linux_x86_64"


def packed(path: Path, files: dict[str, str]) -> Path:
    with ZipFile(path, "w") as content:
        for name, text in files.items():
            content.writestr(name, text)
    return path


def wheel(folder: Path, torch: str, core: str = "core") -> Path:
    path = folder / torch / f"npugraph-0.1.0-{TAG}.whl"
    path.parent.mkdir()
    return packed(
        path,
        {
            "npugraph/libnpugraph_core.so": core,
            f"npugraph/torch-{torch}/_C.so": f"module for {torch}",
            f"npugraph/torch-{torch}/_ascend.so": f"device for {torch}",
            f"{INFO}/METADATA": f"Name: npugraph\nRequires-Dist: torch=={torch}.*\nRequires-Dist: numpy\n",
            f"{INFO}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n",
            f"{INFO}/RECORD": "",
        },
    )


def run(script: str, *wheels: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPTS / script, *wheels], capture_output=True, text=True)


def join(first: Path, other: Path) -> subprocess.CompletedProcess[str]:
    return run("join_wheels", first, other)


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


def test_the_device_moves_to_the_wheel_that_loads_it(tmp_path) -> None:
    backend = wheel(tmp_path, "2.13")
    info = "torch_npu-0.1.0.dist-info"
    pure = {
        "torch_npu/__init__.py": "",
        f"{info}/METADATA": "Name: torch_npu\nVersion: 0.1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    done = run("split_wheel", backend, packed(tmp_path / "torch_npu-0.1.0-py3-none-any.whl", pure))
    device = tmp_path / f"torch_npu-0.1.0-{TAG}.whl"
    assert (done.returncode, done.stdout.strip()) == (0, str(device)), done.stderr
    assert list(tmp_path.glob("*.whl")) == [device]
    with ZipFile(backend) as content:
        assert not [name for name in content.namelist() if "_ascend" in name]
    with ZipFile(device) as content:
        assert content.read("npugraph/torch-2.13/_ascend.so") == b"device for 2.13"
        assert f"Root-Is-Purelib: false\nTag: {TAG}" in content.read(f"{info}/WHEEL").decode()
        assert "npugraph/torch-2.13/_ascend.so,sha256=" in content.read(f"{info}/RECORD").decode()


def test_a_wheel_without_the_device_is_refused(tmp_path) -> None:
    backend = packed(tmp_path / f"npugraph-0.1.0-{TAG}.whl", {f"{INFO}/RECORD": ""})
    done = run("split_wheel", backend, tmp_path / "torch_npu-0.1.0-py3-none-any.whl")
    assert done.returncode == 1 and "has no npugraph/torch-*/_ascend.*" in done.stderr
