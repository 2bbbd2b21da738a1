# SPDX-License-Identifier: Apache-2.0
"""Over the model set, the graphs that are recorded without AOTAutograd are those that AOTAutograd makes."""

from __future__ import annotations

import pytest
import torch

from benchmarks.models import CASES
from benchmarks.special_models import SPECIAL
from tests.python.backend.graphs.test_recording import run_both

MODELS = {**CASES, "mlp64": SPECIAL["mlp64"], "decoder28": SPECIAL["decoder28"]}
# mamba maps a function over a dimension; swin's pooling turns a tensor in place.
THROUGH_AOT_AUTOGRAD = {"mamba", "swin"}


@pytest.mark.parametrize("name", [name for name in MODELS if name not in THROUGH_AOT_AUTOGRAD])
def test_both_routes_give_one_graph(monkeypatch, name: str) -> None:
    case = MODELS[name]
    model = case.build()
    with torch.no_grad():
        graphs, _ = run_both(monkeypatch, lambda inputs: model(**inputs), lambda: (case.inputs(),))
    assert graphs[0] == graphs[1]
