# SPDX-License-Identifier: Apache-2.0
"""The backend for callers that configure it with an object, or that call it from a backend of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from npugraph.backend import checked, compile_dynamo_graph, compile_operators, npugraph_ex, refuse_arguments
from npugraph.driver.entry import Target
from npugraph.driver.pipeline import GRAPH
from npugraph.fx import own_backends
from npugraph.fx.streams.stream_marks import marks
from npugraph.options import CompilerConfig, backend_of, checked_config

marks()  # so that they are not dead code in graphs that AOTAutograd traces before any code of npugraph runs


def get_npu_backend(
    *,
    compiler_config: CompilerConfig | None = None,
    custom_decompositions: Mapping[torch._ops.OpOverload, Callable[..., Any]] = MappingProxyType({}),
) -> Callable[..., Any]:
    """Returns a backend for ``torch.compile(model, backend=...)`` with these options.

    ``custom_decompositions`` maps operators to functions that compute the same by means of other operators. The
    functions replace the operators before any pass sees the graph. Raises ``TypeError`` for another kind of
    configuration, ``ValueError`` for options that contradict each other.
    """
    return configured_backend(checked_config(compiler_config), custom_decompositions)


def configured_backend(
    config: CompilerConfig, decompositions: Mapping[Any, Callable[..., Any]], target: Target[Any] = GRAPH
) -> Callable[..., Any]:
    """Returns a backend with these options for ``target``."""
    decompositions = dict(decompositions or {})

    def compile_with_config(
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        refuse_arguments(mode, options, backend_of(config))
        return compile_dynamo_graph(gm, example_inputs, config, decompositions, target)

    compile_with_config.__name__ = backend_of(config)  # for errors that Dynamo wraps
    compile_with_config.reset = npugraph_ex.reset  # for torch._dynamo.reset()
    return own_backends.mark(compile_with_config)


def get_compiler(compiler_config: CompilerConfig | None = None) -> Callable[..., Any]:
    """Returns ``compile_fx`` with these options, in the form of a ``fw_compiler`` of
    ``torch._functorch.aot_autograd``."""
    return configured_compiler(checked_config(compiler_config))


def configured_compiler(config: CompilerConfig, target: Target[Any] = GRAPH) -> Callable[..., Any]:
    """Returns ``compile_fx`` with these options for ``target``."""

    def compiler(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return compile_operators(gm, config, target)

    return compiler


def compile_fx(
    gm: fx.GraphModule, example_inputs: Sequence[Any] | None = None, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compiles a graph of ATen operators, as AOTAutograd makes them, for backends that call
    ``aot_module_simplified(fw_compiler=...)``, and returns a function of the graph's inputs.

    Streams, events and core limits act as in ``torch.compile(backend="npugraph_ex")``. Placeholders carry their fake
    tensors in ``meta["val"]``. Written inputs are updated in place only if AOTAutograd was called with
    ``keep_inference_input_mutations=True``.
    """
    return compile_operators(gm, checked(options))
