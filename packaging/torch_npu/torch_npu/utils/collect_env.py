# SPDX-License-Identifier: Apache-2.0
"""Facts about the machine for reports of problems: ``python -m torch_npu.utils.collect_env``."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch
from torch.utils import collect_env

import torch_npu
from torch_npu.npu import cann


class EnvInfo(NamedTuple):
    """Facts about the machine."""

    of_torch: collect_env.SystemEnv
    torch_npu_version: str
    cann_version: str
    device_count: int
    device_name: str


def get_torch_npu_install_path() -> str:
    """Returns the directory of this package."""
    return os.path.dirname(torch_npu.__file__)


def check_path_owner_consistent(path: str) -> bool:
    """Whether ``path`` belongs to the user of this process, or to root. Raises FileNotFoundError if it does not
    exist."""
    return os.stat(path).st_uid in (0, os.getuid())


def check_directory_path_readable(path: str) -> None:
    """Raises RuntimeError unless ``path`` is a directory that can be read, and no link."""
    if os.path.islink(path) or not os.path.isdir(path) or not os.access(path, os.R_OK):
        raise RuntimeError(f"{path} is not a directory that can be read")


def get_cann_version() -> str:
    """Returns the version of the vendor's software."""
    return cann.get_cann_version()


def get_torch_npu_version() -> str:
    """Returns the version of this package."""
    return torch_npu.__version__


def get_env_info() -> EnvInfo:
    """Returns facts about the machine."""
    return EnvInfo(
        of_torch=collect_env.get_env_info(),
        torch_npu_version=get_torch_npu_version(),
        cann_version=get_cann_version(),
        device_count=torch.npu.device_count(),
        device_name=torch.npu.get_device_name(),
    )


def pretty_str(envinfo: EnvInfo) -> str:
    """Returns ``envinfo`` as text for people."""
    ours = (
        f"torch_npu version: {envinfo.torch_npu_version} (npugraph, on host memory)\n"
        f"CANN version: {envinfo.cann_version}\n"
        f"npu devices: {envinfo.device_count} x {envinfo.device_name}\n"
    )
    return f"{collect_env.pretty_str(envinfo.of_torch)}\n{ours}"


def get_pretty_env_info() -> str:
    """Returns facts about the machine, as text for people."""
    return pretty_str(get_env_info())


def main() -> None:
    """Prints facts about the machine."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
