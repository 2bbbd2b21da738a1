# SPDX-License-Identifier: Apache-2.0
"""An environment of its own with what a wheel of this tree installs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import torch

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest needs

ROOT = Path(__file__).parents[3]
_BUILD = Path(os.environ.get("TEST_BUILD", ROOT / "build/release"))  # for the Python and the torch of the tests
_BY_CMAKE = ("*.so", "torch-*", "include", "cmake", "__pycache__")  # of a build in place: CMake installs them


def environment(folder: Path) -> Path:
    """Makes the environment in ``folder`` and returns its interpreter. It takes torch and other packages from the
    environment of the tests, without what is installed from this tree."""
    venv.create(folder, symlinks=True)
    site = next((folder / "lib").glob("python3*")) / "site-packages"
    (site / "others.pth").write_text(f"{Path(torch.__file__).parents[1]}\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for package in project["tool"]["scikit-build"]["wheel"]["packages"]:
        shutil.copytree(ROOT / package, site / Path(package).name, ignore=shutil.ignore_patterns(*_BY_CMAKE))
    _install(site)
    shutil.copy(_BUILD / "bin/npugraph-run", folder / "bin")
    _write_metadata(site, project["project"])
    return folder / "bin/python"


def _install(site: Path) -> None:
    cmake = Path(sys.executable).with_name("cmake")
    command = [cmake, "--install", _BUILD, "--prefix", site, "--component", "wheel"]
    subprocess.run(command, check=True, capture_output=True)


def _write_metadata(site: Path, project: dict[str, object]) -> None:
    folder = site / f"{project['name']}-{project['version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines))
