# SPDX-License-Identifier: Apache-2.0
"""Versions of the vendor's software. The device says that it has a newer one than any that scripts ask for."""

from __future__ import annotations

import re

from npugraph import _ascend as _device

_VERSION = "9.9.0"
_MODULES = ("CANN", "RUNTIME", "COMPILER", "HCCL", "TOOLKIT", "OPP", "OPP_KERNEL", "DRIVER")
_STAGES = {"ALPHA": 0, "BETA": 1, "RC": 2, "": 3}


def get_cann_version(module: str = "CANN") -> str:
    """Returns the version of a part of the vendor's software, for example of "CANN" or "DRIVER".

    Raises ValueError for a part that is not known.
    """
    if module.upper() not in _MODULES:
        raise ValueError(f"get_cann_version: module is {module!r}, allowed are {', '.join(_MODULES)}")
    return _VERSION


def _parts(version: str) -> tuple[int, ...]:
    match = re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?(?:\.?(alpha|beta|rc)(\d*))?", version.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(f"version is {version!r}, and must look like 8.1.0 or 8.2.RC1")
    major, minor, patch, stage, number = match.groups()
    return int(major), int(minor), int(patch or 0), _STAGES[(stage or "").upper()], int(number or 0)


def _is_gte_cann_version(version: str, module: str = "CANN") -> bool:
    """Whether the part ``module`` has at least this version. Raises ValueError if ``version`` is not a version."""
    return _parts(get_cann_version(module)) >= _parts(version)


def get_soc_version() -> int:
    """Returns the number of the chip: 220 to 225 for the A2 family. NPUGRAPH_SOC_VERSION sets it."""
    return _device.facts()["soc_version"]
