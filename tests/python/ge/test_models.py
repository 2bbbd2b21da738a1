# SPDX-License-Identifier: Apache-2.0
"""Models through GE: as accurate as eager, one compile for all sizes, and no operator of torch behind the engine."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from benchmarks.model_case import allowed_error, flatten_outputs, reference64, relative_errors
from npugraph.demo import smollm2
from tests.python.models.model_measurements import MODELS
from torchair import CompilerConfig, get_npu_backend

# The architectures that GE mode is built for. The other models of the set run, too, but not with all sizes.
NAMES = ("bert", "vit", "gpt2", "resnet", "llama")
# Dynamo gives equal sizes one symbol, so none of them may be the size of a dimension that does not change.
BATCHES = (5, 2, 9)
# Operators by which these models would be computed if they were not generated code.
REPLACED = ("add.Tensor", "mm", "addmm", "convolution", "convolution_overrideable", "relu", "mul.Tensor")


def compiled(model: Any, **how: Any) -> Any:
    """An operator without a converter is an error: nothing runs eagerly."""
    config = CompilerConfig()
    config.debug.missing_converters = "error"
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    return torch.compile(model, backend=get_npu_backend(compiler_config=config), **how)


@contextlib.contextmanager
def operators_that_raise() -> Iterator[None]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("an operator of torch was called")

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Overriding a previously registered kernel", UserWarning)
        for name in REPLACED:
            library.impl(name, refuse, "CPU")
    try:
        yield
    finally:
        library._destroy()


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_one_compile_serves_all_batch_sizes(name: str) -> None:
    case = MODELS[name]
    model = case.build()
    fast = compiled(model, dynamic=True)
    for batch in BATCHES:
        reference = reference64(case, batch)
        eager = relative_errors(flatten_outputs(model(**case.inputs(batch))), reference)
        errors = relative_errors(flatten_outputs(fast(**case.inputs(batch))), reference)
        assert all(error <= allowed_error(other) for error, other in zip(errors, eager, strict=True))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


@pytest.mark.parametrize("size", ["tiny", pytest.param("base", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_the_engine_runs_without_operators_of_torch(name: str, size: str) -> None:
    case = MODELS[name]
    fast = compiled(case.build(size))
    inputs = case.inputs(3, size)
    expected = flatten_outputs(fast(**inputs))
    with operators_that_raise():
        with pytest.raises(AssertionError, match="an operator of torch was called"):
            torch.ones(2) + torch.ones(2)
        results = flatten_outputs(fast(**inputs))
    assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))


@pytest.mark.long
@torch.no_grad()
def test_smollm2_is_compiled_once_for_three_lengths() -> None:
    """The real weights: logits of prompts of three lengths."""
    model = smollm2.load_model()
    fast = compiled(model, dynamic=True)
    exact = copy.deepcopy(model).double()
    for length in (7, 12, 31):
        tokens = torch.randint(0, model.config.vocab_size, (1, length), generator=torch.Generator().manual_seed(length))
        reference, eager, ours = (run(tokens, use_cache=False).logits for run in (exact, model, fast))
        bound = allowed_error(*relative_errors([eager], [reference]))
        (error,) = relative_errors([ours], [reference])
        assert error <= bound
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
