# SPDX-License-Identifier: Apache-2.0
"""npugraph: graph mode for PyTorch in C++. ``torch.compile(model, backend="npugraph_ex")``.

The names in ``__all__`` are the public API (docs/api): they and their fields keep their meaning, and later versions
only add. Everything else, submodules included, may change.
"""

import importlib

import torch  # noqa: F401  (loads the libraries that the extension links)

from npugraph import _C, operators  # noqa: F401  (operators: defines npugraph::attention, which graphs call)
from npugraph.artifact import Artifact, Instance, artifacts
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


def __getattr__(name: str):
    # The backend imports torch._dynamo, which takes most of a second, and GE mode protobuf: when they are first used.
    if name == "reset":
        from npugraph.backend import reset

        return reset
    if name == "check_operator":
        from npugraph.operator_steps.check import check_operator

        return check_operator
    if name == "load_op_plugin":
        from npugraph.op_plugin import load_op_plugin

        return load_op_plugin
    if name == "define_operator":
        from npugraph.meanings import define_operator

        return define_operator
    if name == "register_prototypes":
        from npugraph.ge.prototypes import register_prototypes

        return register_prototypes
    if name == "testing":
        return importlib.import_module("npugraph.testing")
    raise AttributeError(f"module 'npugraph' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
