# SPDX-License-Identifier: Apache-2.0
"""The packages ``npugraph_ex`` and ``torchair`` under the names that scripts of Ascend have for them."""

import importlib

__all__ = ["npugraph_ex", "torchair"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'torch_npu.dynamo' has no attribute {name!r}")
    return importlib.import_module(f"torch_npu.dynamo.{name}")


def __dir__() -> list[str]:
    return __all__
