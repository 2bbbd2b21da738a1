# SPDX-License-Identifier: Apache-2.0
"""torchair: Ascend's names for GE mode, in which graphs of ``torch.compile`` are converted to Ascend IR and run by the
graph engine (GE). It shares its registry of replacement rules and its logger with npugraph_ex.

``torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config))``
"""

from npugraph.facade import NotHereError, lazy_names, submodules
from torchair import fx_summary, npu_fx_compiler  # noqa: F401 (scripts find them in sys.modules)
from torchair.core import _concrete_graph  # noqa: F401 (the same)

__all__ = [
    "CompilerConfig",
    "NotHereError",
    "dynamo_export",
    "ge",
    "get_compiler",
    "get_npu_backend",
    "logger",
    "npu_format_cast_via_cpu",
    "ops",
    "patch_for_hcom",
    "register_fx_node_ge_converter",
    "register_replacement",
    "scope",
    "use_internal_format_weight",
]

_MODULES = (
    "_acl_concrete_graph",
    "_contrib",
    "_ge_concrete_graph",
    "_torchair",
    "configs",
    "core",
    "experimental",
    "fx_summary",
    "ge",
    "ge_concrete_graph",
    "inference",
    "llm_datadist",
    "npu_export",
    "npu_fx_compiler",
    "ops",
    "patterns",
    "scope",
    "tools",
)

__getattr__ = lazy_names(
    "torchair",
    {
        **submodules("torchair", *_MODULES),
        "CompilerConfig": "npugraph.ge.config",
        "dynamo_export": "npugraph.ge.export",
        "get_compiler": "npugraph.ge.backend.npu_backend",
        "get_npu_backend": "npugraph.ge.backend.npu_backend",
        "logger": "npugraph.log",
        "npu_format_cast_via_cpu": "npugraph.ge.backend.npu_backend",
        "patch_for_hcom": "npugraph.ge.backend.npu_backend",
        "register_fx_node_ge_converter": "npugraph.ge.backend.user_converters",
        "register_replacement": "npugraph.fx.passes.replacements",
        "use_internal_format_weight": "npugraph.ge.backend.npu_backend",
    },
)


def __dir__() -> list[str]:
    return __all__
