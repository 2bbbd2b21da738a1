# SPDX-License-Identifier: Apache-2.0
"""Compiles models of the model set, judges their outputs, and notes what the backend made of them."""

from __future__ import annotations

import functools
import math
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

from benchmarks.model_case import allowed_error, flatten_outputs, reference64, relative_errors
from benchmarks.models import CASES
from benchmarks.special_models import SPECIAL

OURS = "npugraph_ex"
# Another backend here tells whether a failure is ours. Facts that only our artifacts have are then not asserted.
BACKEND = os.environ.get("TEST_BACKEND", OURS)
MODELS = CASES | {name: SPECIAL[name] for name in ("mlp64", "decoder28", "minilm")}
# A model of each family: encoder, decoder, both, convolutions, images, sound.
FAMILIES = {"mlp64", "bert", "gpt2", "llama", "decoder28", "t5", "resnet", "convnextv2", "vit", "whisper_decode"}
# And models that have operators or layouts of their own.
UNLIKE = FAMILIES | {"mamba", "swin", "mobilenet_v2", "mobilebert", "clip", "minilm", "bart", "albert"}


def all_of(chosen: set[str]) -> list[Any]:
    """The names of all models as parameters. Those that are not chosen run in `make long`."""
    return [pytest.param(name, marks=[pytest.mark.long] * (name not in chosen)) for name in MODELS]


@dataclass
class Measurement:
    """The outcome of one model at one batch size. Errors are relative to float64, one for each output."""

    model: str
    batch: int
    errors: list[float]
    eager_errors: list[float]
    replay_equal: bool
    graphs: int
    breaks: int
    partitions: list[Any] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)  # reasons why code was not generated
    tasks: Counter[str] = field(default_factory=Counter)
    copied_bytes: int = 0
    arena_bytes: int = 0
    lower_bound_bytes: int = 0

    @property
    def accurate(self) -> bool:
        pairs = zip(self.errors, self.eager_errors, strict=True)
        return all(error <= allowed_error(eager) for error, eager in pairs)

    @property
    def arena_ratio(self) -> float | None:
        return self.arena_bytes / self.lower_bound_bytes if self.lower_bound_bytes else None


MEASURED: list[Measurement] = []
# The allocations of one decode step on torch's CPU allocator: task (empty outside tasks), number, bytes.
ALLOCATIONS: list[tuple[str, int, int]] = []


def artifacts() -> list[Any]:
    """Returns the artifacts that our backend made since the last reset, at least one. The list is empty if the tests
    run on another backend."""
    if BACKEND != OURS:
        return []
    from tests.python.backend.checks import compiled_artifacts

    return compiled_artifacts()


def reset() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


@functools.cache
def measure(name: str, batch: int) -> Measurement:
    """Compiles model ``name`` in its tiny size, calls it twice, and compares both calls with eager and float64."""
    reset()
    case = MODELS[name]
    model = case.build()
    reference = reference64(case, batch)
    eager = flatten_outputs(model(**case.inputs(batch)))
    compiled = torch.compile(model, backend=BACKEND)
    first = flatten_outputs(compiled(**case.inputs(batch)))
    second = flatten_outputs(compiled(**case.inputs(batch)))
    counters = torch._dynamo.utils.counters
    result = Measurement(
        name,
        batch,
        errors=relative_errors(first, reference),
        eager_errors=relative_errors(eager, reference),
        replay_equal=all(torch.equal(a, b) for a, b in zip(first, second, strict=True)),
        graphs=counters["stats"]["unique_graphs"],
        breaks=sum(counters["graph_break"].values()),
    )
    for artifact in artifacts():
        note_artifact(result, artifact)
    MEASURED.append(result)
    return result


def generated(model: Any, prompt: torch.Tensor, cache: str, count: int) -> list[int]:
    """Returns ``count`` tokens of ``model.generate``, as users of transformers call it. Its forward may be compiled."""
    output = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=count,
        do_sample=False,
        cache_implementation=cache,
        disable_compile=True,  # keeps transformers from compiling by its own choice
    )
    return output[0, prompt.shape[1] :].tolist()


def note_artifact(result: Measurement, artifact: Any) -> None:
    memory = artifact.memory
    result.partitions += artifact.partitions
    result.refusals += [task.reason for task in artifact.tasks if task.reason.startswith("no generated code: ")]
    result.tasks.update(task.kind for task in artifact.tasks)
    result.copied_bytes += memory["copied_bytes_per_replay"]
    result.arena_bytes += memory["arena_bytes"]
    result.lower_bound_bytes += memory["lower_bound_bytes"]


def geometric_mean(values: Iterable[float]) -> float:
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def model_table() -> str:
    """Returns a line for each model and batch size, and the geometric mean of arena / lower bound."""
    if not MEASURED:
        return ""
    header = f"{'model':<16} batch graphs breaks parts   error   eager  copied B  arena/bound  tasks by kind"
    lines = [header] + [table_line(entry) for entry in MEASURED]
    ratios = [entry.arena_ratio for entry in MEASURED if entry.arena_ratio is not None]
    if ratios:
        lines.append(f"arena / lower bound, geometric mean over {len(ratios)}: {geometric_mean(ratios):.4f}")
    return "\n".join(lines)


def table_line(entry: Measurement) -> str:
    ratio = "-" if entry.arena_ratio is None else f"{entry.arena_ratio:.4f}"
    tasks = " ".join(f"{kind} {count}" for kind, count in sorted(entry.tasks.items())) or "-"
    return (
        f"{entry.model:<16} {entry.batch:>5} {entry.graphs:>6} {entry.breaks:>6} {len(entry.partitions):>5} "
        f"{max(entry.errors):>7.1e} {max(entry.eager_errors):>7.1e} {entry.copied_bytes:>9} {ratio:>12}  {tasks}"
    )


def allocation_table() -> str:
    return "\n".join(f"{count:>6} {size:>10} B  {name or 'outside tasks'}" for name, count, size in ALLOCATIONS)
