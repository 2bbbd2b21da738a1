# SPDX-License-Identifier: Apache-2.0
"""npugraph_ex: Ascend's names for the backend of the same name. All of it is part of npugraph; nothing is computed
here.

``torch.compile(model, backend="npugraph_ex", options={...})``; docs/options.md describes the options.
"""

from npugraph.facade import lazy_names
from npugraph.options import CompilerConfig
from npugraph_ex import fx_summary, npu_fx_compiler  # noqa: F401 (scripts find them in sys.modules)
from npugraph_ex.core import _concrete_graph  # noqa: F401 (the same)

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
        "get_compiler": "npugraph.compilers",
        "get_npu_backend": "npugraph.compilers",
        "inference": "npugraph_ex.inference",
        "logger": "npugraph.log",
        "patterns": "npugraph_ex.patterns",
        "register_replacement": "npugraph.fx.passes.replacements",
        "replacements": "npugraph.fx.passes.replacements",
        "scope": "npugraph_ex.scope",
    },
)


def __dir__() -> list[str]:
    return __all__
