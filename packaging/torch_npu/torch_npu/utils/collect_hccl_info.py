# SPDX-License-Identifier: Apache-2.0
"""Measures collectives of one machine with ``hccl_test``, the vendor's tool:
``python -m torch_npu.utils.collect_hccl_info``.

The tool is part of Ascend's toolkit (``ASCEND_HOME_PATH``), and runs on its devices, with MPI (``MPI_HOME``). On a host
without the toolkit, each function says in its error what is missing. Collectives of the backend hccl are measured there
as those of any backend, for example with torch.profiler.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import torch

_EXECUTABLE = "all_reduce_test"


def get_tool_path() -> str:
    """Returns the directory of hccl_test in the toolkit. Raises RuntimeError if there is none."""
    home = os.environ.get("ASCEND_HOME_PATH")
    if not home:
        raise RuntimeError("collect_hccl_info: hccl_test is part of Ascend's toolkit, and ASCEND_HOME_PATH is not set")
    path = Path(home, "tools", "hccl_test")
    if not path.is_dir():
        raise RuntimeError(f"collect_hccl_info: ASCEND_HOME_PATH has no hccl_test: {path} is no directory")
    return str(path)


def get_mpi_install_path() -> str:
    """Returns the directory of MPI: MPI_HOME, or the place of mpirun. Raises RuntimeError if there is neither."""
    home = os.environ.get("MPI_HOME")
    if home:
        return home
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        raise RuntimeError("collect_hccl_info: hccl_test runs with MPI: MPI_HOME is not set, and there is no mpirun")
    return str(Path(mpirun).resolve().parent.parent)


def get_exe_hccl_test() -> str:
    """Returns the path of the program that measures all_reduce; ``compile_hccl_test`` makes the program."""
    return str(Path(get_tool_path(), "bin", _EXECUTABLE))


def is_compiled() -> bool:
    """Whether the program that measures all_reduce is there."""
    return os.access(get_exe_hccl_test(), os.X_OK)


def compile_hccl_test() -> None:
    """Makes the programs of hccl_test. Raises CalledProcessError if that fails."""
    tool = get_tool_path()
    settings = [f"MPI_HOME={get_mpi_install_path()}", f"ASCEND_DIR={os.environ['ASCEND_HOME_PATH']}"]
    subprocess.run(["make", "-C", tool, *settings], check=True)


def execute_hccl_test_single_node() -> None:
    """Measures all_reduce over all devices of this machine; the program prints what it finds."""
    if not is_compiled():
        compile_hccl_test()
    count = str(torch.npu.device_count())
    mpirun = str(Path(get_mpi_install_path(), "bin", "mpirun"))
    sizes = ["-b", "8K", "-e", "64M", "-f", "2", "-p", count]
    subprocess.run([mpirun, "-n", count, get_exe_hccl_test(), *sizes], check=True)


if __name__ == "__main__":
    execute_hccl_test_single_node()
