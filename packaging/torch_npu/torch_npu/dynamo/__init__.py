# SPDX-License-Identifier: Apache-2.0
"""The packages ``npugraph_ex`` and ``torchair`` under the names that Ascend's scripts use, and the backends of
torch.compile that come with torch_npu: ``npu`` and ``npugraphs``."""

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from npugraph import NpugraphWarning

__all__ = ["npugraph_ex", "torchair"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'torch_npu.dynamo' has no attribute {name!r}")
    return importlib.import_module(f"torch_npu.dynamo.{name}")


def __dir__() -> list[str]:
    return __all__


def _npu_backend_entrypoint(
    gm: Any, example_inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The backend of ``torch.compile(model, backend="npu")``: that of torchair with its default configuration. If there
    is no torchair that compiles, torch runs the graph as it is, with a warning."""
    _warn_of_arguments("npu", mode, options)
    try:
        get_npu_backend = importlib.import_module("torchair").get_npu_backend
    except (ImportError, AttributeError) as error:
        _warn(f"backend 'npu' runs graphs operator by operator, because torchair cannot compile them ({error})")
        return gm.forward
    return get_npu_backend()(gm, example_inputs)


def _npugraphs_backend_entrypoint(
    gm: Any, example_inputs: Sequence[Any], *, mode: str | None = None, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """The backend of ``torch.compile(model, backend="npugraphs")``. It captures and replays the operators as they are,
    as torch's backend ``cudagraphs`` does. Nothing is fused or generated, so results have the bits of eager mode."""
    from npugraph.compilers import get_npu_backend
    from npugraph.options import CompilerConfig

    _warn_of_arguments("npugraphs", mode, options)
    config = CompilerConfig()
    config.pattern_fusion_pass = False
    config.generate_code = False
    return get_npu_backend(compiler_config=config)(gm, example_inputs)


def _warn_of_arguments(backend: str, mode: str | None, options: Mapping[str, Any] | None) -> None:
    given = {"mode": mode, "options": options}
    named = ", ".join(f"{name}={value!r}" for name, value in given.items() if value)
    if named:
        _warn(f"backend {backend!r} takes no arguments, and {named} has no effect")


def _warn(message: str) -> None:
    warnings.warn(message, NpugraphWarning, stacklevel=3)
