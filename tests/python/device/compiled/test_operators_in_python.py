# SPDX-License-Identifier: Apache-2.0
"""Operators of npu that are registered again in another namespace, all in Python, give the same in all modes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import npugraph
import torchair
from npugraph.log import logger
from tests.python.device.converters_in_python import CONVERTED
from tests.python.device.npu_operators import check_close, on, tensors
from tests.python.device.registered_in_python import CALLS, FUNCTIONAL, WRITING, Call, in_python, is_written, original

pytestmark = [
    pytest.mark.feature("7.01", "7.04", "7.05", "7.07", "6.31", "6.32"),
    pytest.mark.filterwarnings("ignore:option 'mode'"),
]
GE = "max-autotune"


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def backend(mode: str) -> Any:
    if mode == "npugraph_ex":
        return mode
    config = torchair.CompilerConfig()
    config.mode = mode
    return torchair.get_npu_backend(compiler_config=config)


def on_copies(op: Callable[..., Any]) -> Callable[..., Any]:
    """Calls ``op`` with intermediates, and returns them too."""

    def function(*args: Any, **kwargs: Any) -> Any:
        copies = pytree.tree_map_only(torch.Tensor, lambda x: x * 1, (args, kwargs))
        return op(*copies[0], **copies[1]), copies

    return function


def outcome(function: Callable[..., Any], call: Call) -> list[torch.Tensor]:
    """The results of a call on npu, and its arguments afterwards."""
    args, kwargs = on("npu", call)
    return on("cpu", tensors((function(*args, **kwargs), args, kwargs)))


def expected(name: str) -> list[torch.Tensor]:
    """What the operator of npu gives and writes. Results that are written arguments count once."""
    op = original(name)
    args, kwargs = on("npu", CALLS[name])
    results = op(*args, **kwargs)
    results = [results] if len(op._schema.returns) == 1 else list(results or ())
    new = [value for value, result in zip(results, op._schema.returns, strict=True) if result.alias_info is None]
    return on("cpu", tensors((new, args, kwargs)))


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_there_are_enough() -> None:
    assert len(CALLS) >= 30
    assert all(any(map(is_written, original(name)._schema.arguments)) for name in WRITING)


@pytest.mark.parametrize("name", CALLS)
def test_eager_mode(name: str) -> None:
    check_close(outcome(in_python(name), CALLS[name]), expected(name))


@pytest.mark.parametrize("mode", ["npugraph_ex", "reduce-overhead", GE])
@pytest.mark.parametrize("name", CALLS)
def test_compiled_calls_give_the_same_in_all_modes(name: str, mode: str) -> None:
    torch._dynamo.reset()
    fast = torch.compile(in_python(name), backend=backend(mode), fullgraph=True)
    for _ in range(2):
        check_close(outcome(fast, CALLS[name]), expected(name))


@pytest.mark.parametrize("mode", ["npugraph_ex", GE])
@pytest.mark.parametrize("name", WRITING)
def test_intermediates_are_written(name: str, mode: str) -> None:
    torch._dynamo.reset()
    function = on_copies(in_python(name))
    fast = torch.compile(function, backend=backend(mode), fullgraph=True)
    check_close(outcome(fast, CALLS[name]), outcome(function, CALLS[name]))


@pytest.mark.parametrize("name", WRITING)
def test_arguments_are_written_in_place(name: str) -> None:
    torch._dynamo.reset()
    fast = torch.compile(in_python(name), backend="npugraph_ex", fullgraph=True)
    for _ in range(2):
        outcome(fast, CALLS[name])
    artifact = npugraph.artifacts()[-1]
    assert [task.name for task in artifact.python_tasks] == [f"npu_in_python.{name.replace('.', '_')}"]
    assert artifact.memory["copied_bytes_per_replay"] == 0


@pytest.mark.parametrize("name", ["npu_geglu", "npu_scatter_list_", "npu_add_rms_norm_v2"])
def test_an_operator_without_a_converter_runs_between_graphs(name: str, caplog: pytest.LogCaptureFixture) -> None:
    torch._dynamo.reset()
    fast = torch.compile(on_copies(in_python(name)), backend=backend(GE), fullgraph=True)
    with caplog.at_level(logging.WARNING, logger.name):
        outcome(fast, CALLS[name])
    (warning,) = warnings_in(caplog)
    assert f"torch.ops.npu_in_python.{name}.default ge_converter is not implemented!" in warning
    assert "They run eagerly, in 1 part of the graph." in warning


def test_operators_with_converters_are_one_graph(caplog: pytest.LogCaptureFixture) -> None:
    def function(calls: dict[str, Call]) -> list[Any]:
        return [in_python(name)(*args, **kwargs) for name, (args, kwargs) in calls.items()]

    torch._dynamo.reset()
    assert len(CONVERTED) >= 10
    calls = {name: CALLS[name] for name in CONVERTED}
    fast = torch.compile(function, backend=backend(GE), fullgraph=True)
    with caplog.at_level(logging.WARNING, logger.name):
        got = outcome(fast, ((calls,), {}))
    check_close(got, outcome(function, ((calls,), {})))
    assert warnings_in(caplog) == []
    assert len(npugraph.artifacts()) == 1


def test_functional_operators_take_all_kinds_of_arguments() -> None:
    kinds = {str(argument.type) for name in FUNCTIONAL for argument in original(name)._schema.arguments}
    assert {"Tensor", "Optional[Tensor]", "List[Tensor]", "List[int]", "int", "float", "bool", "str"} <= kinds
