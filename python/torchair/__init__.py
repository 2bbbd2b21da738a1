# SPDX-License-Identifier: Apache-2.0
"""torchair: Ascend's names for what npugraph does. One registry of replacement rules for it and npugraph_ex."""

from npugraph.facade import lazy_names

__all__ = ["logger", "register_replacement"]

__getattr__ = lazy_names(
    "torchair",
    {
        "core": "torchair.core",
        "logger": "npugraph.log",
        "patterns": "torchair.patterns",
        "register_replacement": "npugraph.fx.replacements",
    },
)


def __dir__() -> list[str]:
    return __all__
