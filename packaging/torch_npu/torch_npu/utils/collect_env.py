# SPDX-License-Identifier: Apache-2.0
"""What a report of a problem should say of the machine: ``python -m torch_npu.utils.collect_env``."""

from __future__ import annotations

import os
from typing import NamedTuple

import torch
from torch.utils import collect_env

import torch_npu
from torch_npu.npu import cann


class EnvInfo(NamedTuple):
    """What is known of the machine."""

    of_torch: collect_env.SystemEnv
    torch_npu_version: str
    cann_version: str
    device_count: int
    device_name: str


def get_torch_npu_install_path() -> str:
    """The directory of this package."""
    return os.path.dirname(torch_npu.__file__)


def check_path_owner_consistent(path: str) -> bool:
    """Whether ``path`` belongs to the user of this process, or to root. FileNotFoundError where there is none."""
    return os.stat(path).st_uid in (0, os.getuid())


def check_directory_path_readable(path: str) -> None:
    """Raises RuntimeError unless ``path`` is a directory, and no link, that can be read."""
    if os.path.islink(path) or not os.path.isdir(path) or not os.access(path, os.R_OK):
        raise RuntimeError(f"{path} is not a directory that can be read")


def get_cann_version() -> str:
    """Version of the vendor's software."""
    return cann.get_cann_version()


def get_torch_npu_version() -> str:
    """Version of this package."""
    return torch_npu.__version__


def get_env_info() -> EnvInfo:
    """What is known of the machine."""
    return EnvInfo(
        of_torch=collect_env.get_env_info(),
        torch_npu_version=get_torch_npu_version(),
        cann_version=get_cann_version(),
        device_count=torch.npu.device_count(),
        device_name=torch.npu.get_device_name(),
    )


def pretty_str(envinfo: EnvInfo) -> str:
    """As text for people."""
    ours = (
        f"torch_npu version: {envinfo.torch_npu_version} (npugraph, on host memory)\n"
        f"CANN version: {envinfo.cann_version}\n"
        f"npu devices: {envinfo.device_count} x {envinfo.device_name}\n"
    )
    return f"{collect_env.pretty_str(envinfo.of_torch)}\n{ours}"


def get_pretty_env_info() -> str:
    """What is known of the machine, as text for people."""
    return pretty_str(get_env_info())


def main() -> None:
    """Prints it."""
    print(get_pretty_env_info())


if __name__ == "__main__":
    main()
