# SPDX-License-Identifier: Apache-2.0
"""Building of extensions."""

from torch.utils.cpp_extension import CppExtension


def NpuExtension(name: str, sources: list[str], *args, **kwargs):
    """Calls ``torch.utils.cpp_extension.CppExtension``: the device is the host, so there is nothing else to link
    with."""
    return CppExtension(name, sources, *args, **kwargs)
