# SPDX-License-Identifier: Apache-2.0
"""npugraph: graph mode for PyTorch in C++. ``torch.compile(model, backend="npugraph_ex")``.

The names in ``__all__`` are the public API (docs/api): they and their fields keep their meaning, and later versions
only add. Everything else, submodules included, may change.
"""

import importlib

import torch  # noqa: F401  (loads the libraries that the extension links)

from npugraph import torch_versions  # noqa: F401  (puts the folder with _C on the path of this package)

# isort: split
from npugraph import _C, operators  # noqa: F401  (operators: defines npugraph::attention, which graphs call)
from npugraph.artifact import Artifact, Instance, artifacts
from npugraph.fx.streams import stream_marks  # noqa: F401  (Dynamo traces the marks before it calls the backend)
from npugraph.libraries import cmake_path, include_path, load_library
from npugraph.observe import poison_freed_memory, pools, task_log, trace
from npugraph.saved import SavedProgram, load
from npugraph.warning_kinds import DefectWarning, NpugraphWarning

__version__ = _C.version

__all__ = [
    "Artifact",
    "DefectWarning",
    "Instance",
    "NpugraphWarning",
    "SavedProgram",
    "artifacts",
    "check_operator",
    "cmake_path",
    "define_operator",
    "include_path",
    "load",
    "load_library",
    "load_op_plugin",
    "poison_freed_memory",
    "pools",
    "register_prototypes",
    "reset",
    "task_log",
    "trace",
]


# Imported when they are first used: the backend imports torch._dynamo, which takes most of a second, GE mode protobuf,
# and reports of operators both.
_LATE = {
    "check_operator": "npugraph.operator_steps.check",
    "define_operator": "npugraph.defined_operators",
    "load_op_plugin": "npugraph.op_plugin",
    "register_prototypes": "npugraph.ge.prototypes",
    "reset": "npugraph.backend",
}


def __getattr__(name: str):
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    if name == "testing":
        return importlib.import_module("npugraph.testing")
    raise AttributeError(f"module 'npugraph' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
