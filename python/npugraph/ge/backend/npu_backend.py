# SPDX-License-Identifier: Apache-2.0
"""The public entries of torchair: backends of torch.compile for each mode of a configuration."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from npugraph import options
from npugraph.backend import checked
from npugraph.compilers import configured_backend, configured_compiler
from npugraph.driver.entry import Target
from npugraph.driver.pipeline import GRAPH
from npugraph.ge.backend.fx_dumps import with_dumps
from npugraph.ge.backend.target import ge_target
from npugraph.ge.config import CompilerConfig, npugraph_options, warn_of_irrelevant
from npugraph.ge.config.row import GE

Decompositions = Mapping[torch._ops.OpOverload, Callable[..., Any]]


def get_npu_backend(
    compiler_config: CompilerConfig | None = None, custom_decompositions: Decompositions = MappingProxyType({})
) -> Callable[..., Any]:
    """Returns a backend for ``torch.compile(model, backend=...)``, which can also be called with a graph of Dynamo and
    its inputs. In mode max-autotune it converts graphs to Ascend IR, which the graph engine runs; in the other modes it
    is backend npugraph_ex with the options of the configuration.

    ``custom_decompositions`` maps operators to functions that compute the same by others. Later changes of the
    configuration do not count. Raises ``TypeError`` for a configuration of another kind, ``ValueError`` for options
    that contradict each other. Gives one ``UserWarning`` that names all options without effect."""
    config, target = _settled(compiler_config)
    return configured_backend(_options(config), custom_decompositions, target)


def get_compiler(compiler_config: CompilerConfig | None = None) -> Callable[..., Any]:
    """Returns a function that compiles a graph of ATen operators, in the form of a ``fw_compiler`` of
    ``torch._functorch.aot_autograd``. Raises and warns as ``get_npu_backend`` does."""
    config, target = _settled(compiler_config)
    return configured_compiler(_options(config), target)


def patch_for_hcom() -> None:
    """Does nothing, because graphs of torch 2.13 hold collectives without a patch. Scripts for torch 2.1 call it."""


def _options(config: CompilerConfig) -> options.CompilerConfig:
    """The options for the compile driver, whose messages then speak of torchair."""
    return checked(with_dumps(npugraph_options(config), config), backend="torchair")


def _settled(given: CompilerConfig | None) -> tuple[CompilerConfig, Target[Any]]:
    """A copy of the configuration, and the target of its mode. That of npugraph_ex also runs graphs eagerly."""
    if given is not None and not isinstance(given, CompilerConfig):
        raise TypeError(f"compiler_config is a torchair.CompilerConfig, got {given!r} ({type(given).__name__})")
    config = CompilerConfig() if given is None else copy.copy(given)
    warn_of_irrelevant(config, stacklevel=4)
    is_converted = config.mode.value == GE and not config.debug.run_eagerly.value
    return config, ge_target(config) if is_converted else GRAPH
