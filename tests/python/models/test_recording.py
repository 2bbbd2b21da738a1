# SPDX-License-Identifier: Apache-2.0
"""Over the model set, the graphs that are recorded without AOTAutograd are those that AOTAutograd makes."""

from __future__ import annotations

import pytest
import torch

from tests.python.backend.graphs.test_recording import run_both
from tests.python.models import model_measurements as m

# mamba maps a function over a dimension; swin's pooling turns a tensor in place.
THROUGH_AOT_AUTOGRAD = {"mamba", "swin"}
# llama and bert have the layers of these.
LONG = {"decoder28", "gpt2", "vit"}
RECORDED = [model for model in m.all_of(m.FAMILIES - LONG) if model.values[0] not in THROUGH_AOT_AUTOGRAD]


@pytest.mark.parametrize("name", RECORDED)
def test_both_routes_give_one_graph(monkeypatch, name: str) -> None:
    case = m.MODELS[name]
    model = case.build()
    with torch.no_grad():
        graphs, _ = run_both(monkeypatch, lambda inputs: model(**inputs), lambda: (case.inputs(),))
    assert graphs[0] == graphs[1]
