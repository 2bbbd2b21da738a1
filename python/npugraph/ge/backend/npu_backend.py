# SPDX-License-Identifier: Apache-2.0
"""The public entries of torchair: backends of torch.compile for each mode of a configuration. In mode
reduce-overhead, whose graphs are FX graphs, ``debug.graph_dump`` writes two files of Python for each of them."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import fx

from npugraph import options
from npugraph.backend import checked
from npugraph.compilers import configured_backend, configured_compiler
from npugraph.driver.entry import Target
from npugraph.driver.pipeline import GRAPH
from npugraph.ge.backend.concrete_graph import next_number
from npugraph.ge.backend.target import ge_target
from npugraph.ge.config import CompilerConfig, npugraph_options, warn_of_irrelevant
from npugraph.ge.config.row import GE, LEGACY
from npugraph.ge.data_types import Format
from npugraph.ge.dumps import files
from npugraph.ranks import rank

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
    config = _settled(compiler_config)
    return backend_of(config, custom_decompositions)


def backend_of(config: CompilerConfig, decompositions: Decompositions, *, at_once: bool = False) -> Callable[..., Any]:
    """Returns the backend with a configuration that does not change any more. ``at_once`` is that of ``ge_target``."""
    return configured_backend(_options(config), decompositions, _target(config, at_once=at_once))


def get_compiler(compiler_config: CompilerConfig | None = None) -> Callable[..., Any]:
    """Returns a function that compiles a graph of ATen operators, in the form of a ``fw_compiler`` of
    ``torch._functorch.aot_autograd``. Raises and warns as ``get_npu_backend`` does."""
    config = _settled(compiler_config)
    return configured_compiler(_options(config), _target(config))


def patch_for_hcom() -> None:
    """Does nothing, because graphs of torch 2.13 hold collectives without a patch. Scripts for torch 2.1 call it."""


_FORMATS = {torch.nn.Linear: Format.FRACTAL_NZ, torch.nn.Conv2d: Format.FRACTAL_Z}


def use_internal_format_weight(model: torch.nn.Module) -> None:
    """Gives weights of ``nn.Linear`` the format FRACTAL_NZ, and those of ``nn.Conv2d`` with float16 FRACTAL_Z, as
    ``torch_npu.npu_format_cast_`` does: it is a tag, and values and their memory stay. Raises ``RuntimeError`` for
    such weights that are not on npu, before it changes any."""
    casts = []
    for name, module in model.named_modules():
        kind = next((kind for kind in _FORMATS if isinstance(module, kind)), None)
        weight = getattr(module, "weight", None)
        if kind is None or weight is None or (kind is torch.nn.Conv2d and weight.dtype != torch.float16):
            continue
        if weight.device.type != "npu":
            raise RuntimeError(
                f"weights have internal formats on npu alone, and {f'{name}.weight'.lstrip('.')!r} is on "
                f"{weight.device}: call model.npu() before use_internal_format_weight(model)"
            )
        casts.append((weight, _FORMATS[kind]))
    for weight, acl_format in casts:
        torch.ops.npu.npu_format_cast_(weight.data, int(acl_format))


def npu_format_cast_via_cpu(
    self: torch.Tensor, acl_format: int, customize_dtype: int | None = None, input_dtype: int | None = None
) -> torch.Tensor:
    """The same as ``torch_npu.npu_format_cast``: memory of npu is memory of the host."""
    return torch.ops.npu.npu_format_cast(
        self, int(acl_format), customize_dtype=customize_dtype, input_dtype=input_dtype
    )


def _options(config: CompilerConfig) -> options.CompilerConfig:
    """The options for the compile driver, whose messages then speak of torchair."""
    return checked(_with_dumps(npugraph_options(config), config), backend="torchair")


def _settled(given: CompilerConfig | None) -> CompilerConfig:
    """A copy of the configuration."""
    if given is not None and not isinstance(given, CompilerConfig):
        raise TypeError(f"compiler_config is a torchair.CompilerConfig, got {given!r} ({type(given).__name__})")
    config = CompilerConfig() if given is None else copy.copy(given)
    warn_of_irrelevant(config, stacklevel=4)
    return config


def _target(config: CompilerConfig, *, at_once: bool = False) -> Target[Any]:
    """The target of the mode. That of npugraph_ex also runs graphs eagerly."""
    is_converted = config.mode.value == GE and not config.debug.run_eagerly.value
    return ge_target(config, at_once=at_once) if is_converted else GRAPH


_BEFORE, _AFTER = "post_grad_custom_pre_pass", "post_grad_custom_post_pass"


def _with_dumps(options: Mapping[str, Any], config: CompilerConfig) -> dict[str, Any]:
    """The options of backend npugraph_ex, with passes around those of the user that write the graph if ``config`` asks
    for it. Raises ``RuntimeError`` for a kind of file that FX graphs do not have."""
    kind = config.debug.graph_dump.type.value
    if config.mode.value != LEGACY or kind is None:
        return dict(options)
    if kind != "py":
        raise RuntimeError(
            f"option 'debug.graph_dump.type' of torchair.CompilerConfig: in mode {LEGACY!r} graphs are written as "
            f"'py' alone, got {kind!r}"
        )
    of_thread = threading.local()  # the number of the graph that a thread is compiling

    def before(gm: fx.GraphModule, inputs: Any, settings: Any) -> None:
        of_thread.number = next_number()
        _write(gm, config, "original", of_thread.number)
        if given := options.get(_BEFORE):
            given(gm, inputs, settings)

    def after(gm: fx.GraphModule, inputs: Any, settings: Any) -> None:
        if given := options.get(_AFTER):
            given(gm, inputs, settings)
        _write(gm, config, "optimized", of_thread.number)

    return {**options, _BEFORE: before, _AFTER: after}


def _write(gm: fx.GraphModule, config: CompilerConfig, stage: str, number: int) -> None:
    folder = files.folder(config.debug.graph_dump.path.value)
    text = gm.print_readable(print_output=False)
    (folder / files.of_graph(stage, number, rank(), "py")).write_text(f"import torch\n\n\n{text.strip()}\n")
