# SPDX-License-Identifier: Apache-2.0
"""Building of extensions."""

from torch.utils.cpp_extension import CppExtension

import npugraph


def NpuExtension(name: str, sources: list[str], *args, **kwargs):
    """Calls ``torch.utils.cpp_extension.CppExtension``, with the directory of ``npugraph/torch.h``. The device is the
    host, so there is nothing else to link with."""
    kwargs["include_dirs"] = [*kwargs.get("include_dirs", []), npugraph.include_path()]
    return CppExtension(name, sources, *args, **kwargs)
