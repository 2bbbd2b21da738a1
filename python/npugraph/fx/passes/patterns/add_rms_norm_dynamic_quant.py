# SPDX-License-Identifier: Apache-2.0
"""A norm whose result is only quantised -> one operator.

    y, _, x = npu_add_rms_norm(x1, x2, gamma)        q, _, x, scale, _ = npu_add_rms_norm_dynamic_quant(
    q, scale = npu_dynamic_quant(                ->      x1, x2, gamma, smooth_scale1=s, output_mask=[True, False])
        y, smooth_scales=s)

A second rule matches graphs that do not use the sum x.
"""

from __future__ import annotations

from typing import Any

from npugraph.fx.passes.patterns.rules import add_with_epsilon, examples, npu, some_results


def _search(x1: Any, x2: Any, gamma: Any, smooth_scales: Any, **epsilon: float) -> Any:
    y, _, x = npu.npu_add_rms_norm(x1, x2, gamma, **epsilon)
    quantised, scale = npu.npu_dynamic_quant(y, smooth_scales=smooth_scales)
    return quantised, x, scale


def _replace(x1: Any, x2: Any, gamma: Any, smooth_scales: Any, **epsilon: float) -> Any:
    quantised, _, x, scale, _ = npu.npu_add_rms_norm_dynamic_quant(
        x1, x2, gamma, smooth_scale1=smooth_scales, **epsilon, output_mask=[True, False]
    )
    return quantised, x, scale


def register() -> None:
    inputs = examples((2, 32), (2, 32), (32,), (32,))
    for name, results in (("add_rms_norm_dynamic_quant", (0, 1, 2)), ("add_rms_norm_dynamic_quant_no_sum", (0, 2))):
        search, replace = (some_results(function, *results) for function in (_search, _replace))
        add_with_epsilon(name, search, replace, inputs)
