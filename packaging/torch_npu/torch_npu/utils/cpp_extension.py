# SPDX-License-Identifier: Apache-2.0
"""Building extensions of scripts."""

from torch.utils.cpp_extension import CppExtension


def NpuExtension(name: str, sources: list[str], *args, **kwargs):
    """``torch.utils.cpp_extension.CppExtension``: the device is the host, so there is nothing to link with."""
    return CppExtension(name, sources, *args, **kwargs)
