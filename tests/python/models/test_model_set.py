# SPDX-License-Identifier: Apache-2.0
"""Every architecture of the model set through the backend: right outputs, no graph breaks, tight memory."""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Collection

import pytest
import torch

from benchmarks.model_case import (
    ERROR_FACTORS,
    allowed_error,
    cast_floating,
    flatten_outputs,
    reference64,
    relative_errors,
    run64,
)
from tests.python.models import model_measurements as m

BATCHES = (1, pytest.param(3, marks=pytest.mark.long))
# Dynamo gives equal sizes one symbol, so neither may be the size of a dimension that does not change.
DYNAMIC_BATCHES = (5, 2)
ARENA_BOUND = 1.02
PRODUCT = re.compile(r"\b(mm|addmm|bmm|convolution)\b")  # in names of tasks


@pytest.mark.feature("12e.1", "12e.11")
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", m.all_of(m.UNLIKE))
def test_outputs_are_as_accurate_as_eager(name: str, batch: int) -> None:
    measured = m.measure(name, batch)
    assert measured.accurate, f"errors {measured.errors}, eager's {measured.eager_errors}"
    assert measured.replay_equal
    assert (measured.graphs, measured.breaks, measured.partitions, measured.refusals) == (1, 0, [], [])


# Dynamo takes several times as long with symbolic sizes. test_decode_memory has them for decoder28; llama and resnet
# stand for gpt2 and convnextv2.
@pytest.mark.parametrize("name", m.all_of(m.FAMILIES - {"decoder28", "gpt2", "convnextv2"}))
def test_one_compile_serves_other_batch_sizes(name: str) -> None:
    """With dynamic=True the second batch size is a new capture, not a new compile."""
    m.reset()
    case = m.MODELS[name]
    model = case.build()
    compiled = torch.compile(model, backend=m.BACKEND, dynamic=True)
    for batch in DYNAMIC_BATCHES:
        eager = relative_errors(flatten_outputs(model(**case.inputs(batch))), reference64(case, batch))
        errors = relative_errors(flatten_outputs(compiled(**case.inputs(batch))), reference64(case, batch))
        assert all(error <= allowed_error(other) for error, other in zip(errors, eager, strict=True))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert not any(artifact.partitions for artifact in m.artifacts())


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "resnet", "llama"])
@torch.no_grad()
def test_half_precision_is_generated_and_as_accurate_as_eager(name: str, dtype: torch.dtype) -> None:
    m.reset()
    case = m.MODELS[name]
    model = case.build(dtype=dtype)
    inputs = functools.partial(case.inputs, 2, dtype=dtype)
    reference = run64(copy.deepcopy(model).double(), cast_floating(inputs(), torch.float64))
    eager = relative_errors(flatten_outputs(model(**inputs())), reference)
    errors = relative_errors(flatten_outputs(torch.compile(model, backend=m.BACKEND)(**inputs())), reference)
    factor = ERROR_FACTORS[str(dtype).removeprefix("torch.")]
    assert all(error <= allowed_error(other, factor) for error, other in zip(errors, eager, strict=True))
    products = [task for artifact in m.artifacts() for task in artifact.tasks if PRODUCT.search(task.name)]
    assert products and all(task.kind != "aten" for task in products)


@pytest.mark.parametrize(
    ("batch", "names"),
    [(1, m.UNLIKE), *(pytest.param(batch, m.MODELS, marks=pytest.mark.long) for batch in (1, 3))],
    ids=["some", "all", "all in batches"],
)
def test_arena_is_close_to_the_lower_bound(batch: int, names: Collection[str]) -> None:
    """Tests the geometric mean over the model set of the arena bytes over the most bytes that are live at once."""
    measured = [m.measure(name, batch) for name in sorted(names)]
    ratios = [entry.arena_ratio for entry in measured if entry.arena_ratio is not None]
    assert (m.BACKEND == m.OURS) == bool(ratios)
    if ratios:
        assert m.geometric_mean(ratios) <= ARENA_BOUND
