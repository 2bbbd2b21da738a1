# SPDX-License-Identifier: Apache-2.0
"""torchair: Ascend's names for functions of npugraph. It shares its registry of replacement rules with npugraph_ex."""

from npugraph.facade import lazy_names

__all__ = ["CompilerConfig", "ge", "logger", "register_replacement"]

_OF_GE_MODE = {
    "dynamo_export",
    "get_compiler",
    "get_npu_backend",
    "inference",
    "npu_format_cast_via_cpu",
    "ops",
    "patch_for_hcom",
    "register_fx_node_ge_converter",
    "scope",
    "use_internal_format_weight",
}


class NotHereError(RuntimeError, AttributeError):
    """A name of Ascend's torchair that this one does not have."""


_find = lazy_names(
    "torchair",
    {
        "CompilerConfig": "npugraph.ge.config",
        "configs": "torchair.configs",
        "core": "torchair.core",
        "ge": "torchair.ge",
        "logger": "npugraph.log",
        "patterns": "torchair.patterns",
        "register_replacement": "npugraph.fx.passes.replacements",
    },
)


def __getattr__(name: str) -> object:
    if name in _OF_GE_MODE:
        raise NotHereError(
            f"torchair.{name} is of GE mode, which is not here; torch.compile(model, backend='npugraph_ex') compiles "
            "without it"
        )
    return _find(name)


def __dir__() -> list[str]:
    return __all__
