# SPDX-License-Identifier: Apache-2.0
"""torch_npu: the ``npu`` device of PyTorch on the host's own memory and cores.

Importing it, or torch where this package is installed, makes ``torch.device("npu")``, ``Tensor.npu()`` and
``torch.npu``. Names and meanings are those of Ascend's package of this name, whose place it takes where there is no
NPU.
"""

import os


def _autoload() -> None:
    """What torch calls at the end of ``import torch`` (entry point ``torch.backends``): importing this is enough."""


# torch would come back here while this module is only half made.
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

from torch_npu import _register  # noqa: E402

_register.make_device()  # what follows asks for its devices

from torch_npu import _dynamo, _operators, npu  # noqa: E402

_register.make_module(npu)
_dynamo.install_when_imported()
_operators.make_fake()

__version__ = torch.__version__.split("+")[0]


def __getattr__(name: str) -> object:
    found = _operators.find(name)
    if found is None:
        raise AttributeError(f"module 'torch_npu' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_operators.names()})
