# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile that goes through GE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch

from npugraph.backend import checked
from npugraph.compilers import configured_backend
from npugraph.ge.backend.target import ge_target
from npugraph.ge.config import CompilerConfig, npugraph_options


def get_npu_backend(
    *,
    compiler_config: CompilerConfig | None = None,
    custom_decompositions: Mapping[torch._ops.OpOverload, Callable[..., Any]] = MappingProxyType({}),
) -> Callable[..., Any]:
    """Returns a backend for ``torch.compile(model, backend=...)`` that converts graphs to Ascend IR and runs them in
    the graph engine. ``custom_decompositions`` maps operators to functions that compute the same by others."""
    config = CompilerConfig() if compiler_config is None else compiler_config
    return configured_backend(checked(npugraph_options(config)), custom_decompositions, ge_target(config))
