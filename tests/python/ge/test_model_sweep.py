# SPDX-License-Identifier: Apache-2.0
"""Models of many kinds in GE mode: eager's accuracy, no failure, and one graph each."""

from __future__ import annotations

import pytest
import torch

from benchmarks.ge_models import Outcome, judge, reference
from benchmarks.sweep_models import SWEEP

CASES = {case.name: (kind, case) for kind, cases in SWEEP.items() for case in cases}
# Models of unlike kinds. `make long` runs the others.
QUICK = {"mixtral", "mamba2", "xlnet", "yolos"}
# Dynamo cuts them where they read elements of tensors, but for the first, which computes with complex numbers.
SEVERAL_GRAPHS = {"deepseek_v2", "encodec", "jetmoe", "longcat_flash", "nllb_moe", "switch_transformers"}
NAMES = [pytest.param(name, marks=[pytest.mark.long] * (name not in QUICK)) for name in CASES]


@torch.no_grad()
def judged(name: str, dtype: str) -> Outcome:
    kind, case = CASES[name]
    outcome = Outcome(kind, name, dtype)
    judge(outcome, case, reference(case), times=False)
    return outcome


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_one_graph_with_the_accuracy_of_eager(name: str) -> None:
    outcome = judged(name, "float32")
    assert outcome.right, (outcome.error, outcome.eager_error)
    assert outcome.whole or name in SEVERAL_GRAPHS, outcome.remark


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_model_of_bfloat16(name: str) -> None:
    outcome = judged(name, "bfloat16")
    assert outcome.right, (outcome.error, outcome.eager_error)


def test_the_sweep_has_models_of_all_kinds() -> None:
    assert len(CASES) == sum(map(len, SWEEP.values())) >= 80
    assert all(len(cases) >= 5 for cases in SWEEP.values())
