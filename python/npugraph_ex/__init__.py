# SPDX-License-Identifier: Apache-2.0
"""npugraph_ex: Ascend's names for the backend of the same name. All of it is part of npugraph; nothing is computed
here.

``torch.compile(model, backend="npugraph_ex", options={...})``; docs/options.md describes the options.
"""

from npugraph.facade import lazy_names
from npugraph.options import CompilerConfig

__all__ = [
    "CompilerConfig",
    "Condition",
    "compile_fx",
    "get_compiler",
    "get_npu_backend",
    "inference",
    "logger",
    "register_replacement",
    "replacements",
    "scope",
]

__getattr__ = lazy_names(
    "npugraph_ex",
    {
        "Condition": "npugraph.fx.passes.conditions",
        "compile_fx": "npugraph.compilers",
        "configs": "npugraph_ex.configs",
        "core": "npugraph_ex.core",
        "get_compiler": "npugraph.compilers",
        "get_npu_backend": "npugraph.compilers",
        "inference": "npugraph_ex.inference",
        "logger": "npugraph.log",
        "npu_fx_compiler": "npugraph_ex.npu_fx_compiler",
        "patterns": "npugraph_ex.patterns",
        "register_replacement": "npugraph.fx.passes.replacements",
        "replacements": "npugraph.fx.passes.replacements",
        "scope": "npugraph_ex.scope",
    },
)


def __dir__() -> list[str]:
    return __all__
