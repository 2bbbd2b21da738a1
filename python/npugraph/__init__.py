# SPDX-License-Identifier: Apache-2.0
"""npugraph: graph mode for PyTorch in C++. ``torch.compile(model, backend="npugraph_ex")``.

What is exported here is the public API; docs/api.md lists it with stability levels.
"""

import torch  # noqa: F401  (loads the libraries that the extension links)

from npugraph import _C
from npugraph.artifact import Artifact, Instance, artifacts, load
from npugraph.observe import poison_freed_memory, pools, task_log, trace

__version__ = _C.version

__all__ = [
    "Artifact",
    "DefectWarning",
    "Instance",
    "NpugraphWarning",
    "artifacts",
    "load",
    "poison_freed_memory",
    "pools",
    "reset",
    "task_log",
    "trace",
]


def __getattr__(name: str):
    # The backend imports torch._dynamo, which costs most of a second: only those who use it pay.
    if name in ("DefectWarning", "NpugraphWarning", "reset"):
        from npugraph import backend

        return getattr(backend, name)
    raise AttributeError(f"module 'npugraph' has no attribute {name!r}")
