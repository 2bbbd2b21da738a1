# SPDX-License-Identifier: Apache-2.0
"""torch_npu: the ``npu`` device of PyTorch on the host's own memory and cores.

Importing it, or importing torch where this package is installed, makes ``torch.device("npu")``, ``Tensor.npu()`` and
``torch.npu``. Names and meanings are those of Ascend's package of the same name. This package takes its place where
there is no NPU.
"""

import importlib
import itertools
import os


def _autoload() -> None:
    """Does nothing, because importing this module is enough. torch calls it at the end of ``import torch`` (entry point
    ``torch.backends``)."""


# Autoloading is off during this import, because torch would import this module again while it is only half made.
_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_before = os.environ.get(_AUTOLOAD)
os.environ[_AUTOLOAD] = "0"
try:
    import torch
finally:
    if _before is None:
        del os.environ[_AUTOLOAD]
    else:
        os.environ[_AUTOLOAD] = _before

# Puts the folder with _C and _ascend on npugraph's path: npugraph has not done so if its own import of torch led here.
from npugraph import torch_versions  # noqa: E402, F401

# isort: split
from torch_npu import _register  # noqa: E402

_register.make_device()  # the modules below need its devices

from torch_npu import (  # noqa: E402
    _aliases,
    _data_parallel,
    _dlpack,
    _dynamo,
    _fake_results,
    _graph_forms,
    _operators,
    distributed,
    npu,
)
from torch_npu.formats import (  # noqa: E402
    Format,
    float4_e1m2fn_x2,
    float4_e2m1fn_x2,
    float8_e4m3fn,
    float8_e5m2,
    float8_e8m0fnu,
    hifloat8,
    int4,
)
from torch_npu.multiprocessing import reductions  # noqa: E402
from torch_npu.streams import erase_stream  # noqa: E402

_register.make_module(npu)
_aliases.install()
_data_parallel.install()
_dlpack.install()
_dynamo.install_when_imported()
_operators.make_fake()
_operators.keep_effects()
_fake_results.install()
_graph_forms.install()
reductions.install()
distributed.distributed_c10d._register()

__version__ = torch.__version__.split("+")[0]


__all__ = [
    "Format",
    "HiFloat8Tensor",
    "erase_stream",
    "float4_e1m2fn_x2",
    "float4_e2m1fn_x2",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e8m0fnu",
    "hifloat8",
    "int4",
    "matmul_checksum",
    "npu",
]

# These modules are imported at their first use, so that ``import torch`` does not wait for them.
_SUBMODULES = (
    "_inductor",
    "atb",
    "contrib",
    "dynamo",
    "multiprocessing",
    "op_plugin",
    "optim",
    "profiler",
    "testing",
    "utils",
)
_LATER = {"HiFloat8Tensor": "_hifloat8", "matmul_checksum": "_matmul_checksum"}


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return importlib.import_module(f"torch_npu.{name}")
    if name in _LATER:
        found = getattr(importlib.import_module(f"torch_npu.{_LATER[name]}"), name)
    else:
        found = _operators.find(name)
    if found is None:
        raise AttributeError(f"module 'torch_npu' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_SUBMODULES, *itertools.chain(*map(_operators.names, _operators.NAMESPACES))})


if os.environ.get("TORCH_TRANSFER_TO_NPU") == "1":
    importlib.import_module("torch_npu.contrib.transfer_to_npu")
