# SPDX-License-Identifier: Apache-2.0
"""The demo's closing table: tokens equal or not, speed, compile time by phase, memory."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Mapping
from typing import Any

from npugraph.demo.generate import Timed

MIB = 1 << 20
MEMORY_FIELDS = {
    "arena_bytes": "arena",
    "heap_bytes": "heap",
    "derived_constant_bytes": "derived constants",
}


def same_tokens(compiled: Timed, eager: Timed) -> tuple[bool, str]:
    """Returns whether both runs gave the same tokens, and a sentence that says so or says where they part."""
    if compiled.tokens == eager.tokens:
        return True, f"yes, all {len(eager.tokens)}"
    pairs = zip(compiled.tokens, eager.tokens, strict=False)
    shorter = min(len(compiled.tokens), len(eager.tokens))
    at = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), shorter)
    return False, f"NO, they part at token {at + 1}"


def compile_phases(artifacts: Iterable[Any]) -> dict[str, float]:
    """Returns the seconds that this process has spent in each phase of torch.compile. The phases of ``artifacts`` are
    summed by name."""
    from torch._dynamo.utils import compilation_time_metrics as metrics

    def total(name: str) -> float:
        return sum(metrics.get(name, ()))

    backend = total("OutputGraph.call_user_compiler")
    guards = total("build_guards")
    phases = {"Dynamo": total("_compile.compile_inner") - backend - guards}
    for artifact in artifacts:
        for name, milliseconds in artifact.phases:
            phases[name] = phases.get(name, 0.0) + milliseconds / 1e3
    other = backend - sum(list(phases.values())[1:])
    return phases | {"other backend work": max(other, 0.0), "guards": guards}


def artifact_memory(artifacts: Iterable[Any]) -> dict[str, int]:
    """Returns the bytes by kind, summed over ``artifacts``."""
    totals = dict.fromkeys(MEMORY_FIELDS.values(), 0)
    for artifact in artifacts:
        for key, label in MEMORY_FIELDS.items():
            totals[label] += artifact.memory[key]
    return totals


def peak_memory_bytes() -> int:
    """Returns the largest resident size that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def table(rows: Mapping[str, str]) -> str:
    """Returns the rows as two aligned columns."""
    width = max(map(len, rows))
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows.items())


def seconds_list(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.2f} s" for name, value in values.items() if value >= 0.005) or "none"


def bytes_list(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value / MIB:.1f} MiB" for name, value in values.items())
