# SPDX-License-Identifier: Apache-2.0
"""The built-in replacement rules on and off: the same results, and the tasks and bytes that each rule saves."""

from __future__ import annotations

import pytest
import torch

import npugraph
from tests.python import tables
from tests.python.device.compiled.test_patterns import BMMS, NORMS, B, K, M, N, norm_inputs, tensors

ROWS: dict[str, str] = {}
tables.TABLES["replacement rules, off -> on"] = lambda: "\n".join(f"{rule:40}{row}" for rule, row in ROWS.items())
# Rules that save nothing, since the graph passes make as good a program without them.
EQUAL = {
    *BMMS,
    "add_rms_norm_cast_to_copy",
    "add_rms_norm_cast_dtype_cast",
    "add_rms_norm_quantize",
    "add_rms_norm_quantize_no_sum",
}


def run(fn, inputs, on: bool):
    torch._dynamo.reset()
    npugraph.reset()
    with torch.no_grad():
        results = torch.compile(fn, backend="npugraph_ex", options={"pattern_fusion_pass": on})(*inputs)
    (artifact,) = npugraph.artifacts()
    assert bool(artifact.replacements) == on
    moved = sum(task.bytes_read + task.bytes_written for task in artifact.tasks)
    return results, len(artifact.tasks), moved, artifact.memory["copied_bytes_per_replay"]


@pytest.mark.feature("1.14", "2.05", "2.06", "2.07", "2.08a", "2.08b", "12e.2", "12e.3")
@pytest.mark.parametrize("rule", [*NORMS, *BMMS])
def test_on_and_off(rule) -> None:
    """Int8 results may differ by one step, since an operator with scales for each row rounds once less."""
    if rule in NORMS:
        fn, inputs = NORMS[rule][0], norm_inputs()
    else:
        fn = lambda *xs: (BMMS[rule](*xs),)  # noqa: E731
        inputs = tensors((M, B, K) if rule.startswith("transpose") else (B, M, K), (B, K, N), dtype=torch.float32)
    (off, *without), (on, *with_rule) = run(fn, inputs, False), run(fn, inputs, True)
    for a, b in zip(on, off, strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        torch.testing.assert_close(a.double(), b.double(), rtol=2e-3, atol=1 if a.dtype == torch.int8 else 2e-3)
    ROWS[rule] = f"tasks {without[0]} -> {with_rule[0]}, bytes moved {without[1]} -> {with_rule[1]}"
    assert all(a <= b for a, b in zip(with_rule, without, strict=True))
    assert (with_rule == without) == (rule in EQUAL)
