# SPDX-License-Identifier: Apache-2.0
"""The backend of torch.compile that goes through GE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from npugraph.backend import checked, compile_dynamo_graph, npugraph_ex
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
    options = checked(npugraph_options(config))
    target = ge_target(config)

    def npu_backend(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return compile_dynamo_graph(gm, example_inputs, options, dict(custom_decompositions or {}), target)

    npu_backend.reset = npugraph_ex.reset  # type: ignore[attr-defined]  # for torch._dynamo.reset()
    return npu_backend
