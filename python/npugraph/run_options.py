# SPDX-License-Identifier: Apache-2.0
"""The options that say how a Program is run, no matter whether it was just compiled, loaded, or found in a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from npugraph import _C
from npugraph.options import BACKEND, OPTIONS, CompilerConfig, parse

_OF_MEMORY = ("use_graph_pool", "reuse_graph_pool_in_same_fx", "capture_limit", "clone_input", "clone_output")
NAMES = (
    *("force_eager", "max_instances", "max_concurrent"),
    *("force_recapture", "capture_error_mode", "frozen_parameter"),
    *("static_kernel_compile", "disable_static_kernel_compile_cache"),
    *("_vllm_aclnn_static_kernel_sym_index", "_vllm_aclnn_static_kernel_sym_range"),
    *_OF_MEMORY,
)


def nested_run_options(config: CompilerConfig) -> Any:
    """Returns the run options of a graph that a task of another graph runs. The options of the other graph about
    inputs, results and memory do not apply to it."""
    options = _C.RunOptions()
    options.capture = not config.force_eager.value
    options.max_instances = config.max_instances.value
    options.max_concurrent = config.max_concurrent.value
    return options


def run_options(config: CompilerConfig, kind: str = "inference") -> Any:
    """Returns the run options of ``config`` as ``_C.RunOptions``. ``kind`` is "inference", "forward" or "backward"."""
    options = nested_run_options(config)
    options.label = f"npu_fx_compiler {kind}"  # the label of calls in traces of torch's profiler
    values = config._vllm_aclnn_static_kernel_sym_range.value
    options.static_kernels = config.static_kernel_compile.value and values != ()
    options.static_kernels_on_disk = not config.disable_static_kernel_compile_cache.value
    options.static_symbol = config._vllm_aclnn_static_kernel_sym_index.value
    options.static_values = values or []
    options.rules = _capture_rules(config, is_training=kind != "inference")
    return options


def _capture_rules(config: CompilerConfig, *, is_training: bool) -> Any:
    """Returns the options of captures and of memory. Autograd keeps inputs and results of training graphs between
    calls. They must stay as they are, so the options ``clone_*`` do not apply to training graphs."""
    rules = _C.CaptureRules()
    for name in _OF_MEMORY:
        if not (is_training and name.startswith("clone_")):
            setattr(rules, name, config.asked(name))
    rules.force_recapture = config.force_recapture.value
    rules.frozen_parameter = config.frozen_parameter.value
    if config.asked("capture_error_mode"):
        rules.set_error_mode(config.capture_error_mode.value)
    return rules


def given(config: CompilerConfig) -> dict[str, Any]:
    """Returns the run options that the user set, in the form that ``parse_for_running`` takes."""
    values = {name: config.asked(name) for name in NAMES}
    return {name: value for name, value in values.items() if value is not None}


def parse_for_running(options: Mapping[str, Any] | None) -> CompilerConfig:
    """Checks options for a Program that was compiled before. Raises the errors of ``parse``, and ``ValueError`` for an
    option that acts only in a compile."""
    config = parse(options)
    for option in OPTIONS:
        if option.name not in NAMES and option.name != "mode" and config.asked(option.name) is not None:
            raise ValueError(
                f"option {option.name!r} of backend {BACKEND!r} acts when a graph is compiled, and this one was "
                f"before; a loaded Program takes: {', '.join(NAMES)}"
            )
    return config
