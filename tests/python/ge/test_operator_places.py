# SPDX-License-Identifier: Apache-2.0
"""Converters that give arguments or results in another order than their operators: the operator runs between graphs,
because the engine computes operators of Ascend IR by the user's operators, place by place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

import torchair
from tests.python.ge.cut_runs import Run

pytestmark = pytest.mark.feature("6.32")
library = torch.library.Library("places", "DEF")


def define(name: str, inputs: Mapping[str, str], turned: bool = False) -> Callable[..., Any]:
    """An operator (x, y) -> (x + 1, y - 1), and its converter to an operator of Ascend IR with ``inputs``, each from
    the argument that it names. With ``turned`` the converter returns the outputs in the other order."""
    library.define(f"{name}(Tensor x, Tensor y) -> (Tensor, Tensor)")
    library.impl(name, lambda x, y: (x + 1, y - 1), "CPU")
    library.impl(name, lambda x, y: (torch.empty_like(x), torch.empty_like(y)), "Meta")
    op = getattr(torch.ops.places, name).default

    @torchair.register_fx_node_ge_converter(op)
    def convert(x: Any, y: Any, *, meta_outputs: Any) -> Any:
        arguments = {"x": x, "y": y}
        given = {own: arguments[argument] for own, argument in inputs.items()}
        first, second = torchair.ge.custom_op(f"Places{name}", inputs=given, outputs=["p", "q"])
        return (second, first) if turned else (first, second)

    return op


in_order = define("in_order", {"a": "x", "b": "y"})
by_name = define("by_name", {"y": "y", "x": "x"})
inputs_turned = define("inputs_turned", {"a": "y", "b": "x"})
outputs_turned = define("outputs_turned", {"a": "x", "b": "y"}, turned=True)


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (in_order, ""),
        (by_name, ""),
        (inputs_turned, "name the inputs as the arguments: x, y"),
        (outputs_turned, "returns the outputs of Placesoutputs_turned in another order"),
    ],
    ids=["in order", "by name", "inputs turned", "outputs turned"],
)
def test_results_are_those_of_the_operator(op: Any, why: str, caplog: pytest.LogCaptureFixture) -> None:
    run = Run(lambda x, y: op(x * 2, y), caplog)
    run.check(torch.randn(4), torch.randn(4))
    assert [why in warning for warning in run.warnings] == ([True] if why else [])
