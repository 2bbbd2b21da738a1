# SPDX-License-Identifier: Apache-2.0
"""Artifacts, explanations and reports say which tasks run Python, and that these run one at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import npugraph
from npugraph.report.facts import facts
from tests.python.report.test_report import compiled, drawn

library = torch.library.Library("python_tasks", "DEF")
library.define("halve_(Tensor(a!) x) -> ()")


@torch.library.impl(library, "halve_", "CPU")
def halve_(x: torch.Tensor) -> None:
    x.div_(2)


@torch.library.impl(library, "halve_", "Meta")
def halve_meta(x: torch.Tensor) -> None:
    pass


@torch.library.custom_op("python_tasks::plus_one", mutates_args=())
def plus_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@plus_one.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def operators(x: torch.Tensor) -> torch.Tensor:
    y = plus_one(plus_one(x * 2))
    torch.ops.python_tasks.halve_(y)
    return torch.cumsum(y, 0)


@pytest.fixture
def artifact() -> npugraph.Artifact:
    return compiled(operators, torch.randn(8))


def test_operators_with_python_kernels(artifact: npugraph.Artifact) -> None:
    names = [task.name for task in artifact.python_tasks]
    assert names == ["python_tasks.plus_one"] * 2 + ["python_tasks.halve_"]
    assert len(artifact.tasks) > 3


@pytest.mark.filterwarnings("ignore::npugraph.NpugraphWarning")
def test_a_call_that_stays_in_python_is_reported() -> None:
    def chosen(x: torch.Tensor) -> torch.Tensor:
        number = (x.sum() > 0).float()  # a task can only take a boolean
        return torch.cond(number, torch.sin, torch.cos, (x,)) + 1

    (task,) = compiled(chosen, torch.ones(3)).python_tasks
    assert task.kind == "python"


def test_the_explanation_names_them(artifact: npugraph.Artifact) -> None:
    text = artifact.explain()
    assert "\nPython\n  3 of 5 tasks, " in text and "one at a time, because Python code holds the GIL" in text
    assert "     2x python_tasks.plus_one (" in text and "     1x python_tasks.halve_ (" in text


def test_a_graph_without_python_says_nothing_of_it() -> None:
    artifact = compiled(lambda x: torch.cumsum(x, 0) + 1, torch.randn(8))
    assert artifact.python_tasks == [] and "\nPython\n" not in artifact.explain()
    told = facts(artifact)["tasks"]
    assert told and not any(task["python"] for task in told)


def test_the_report_names_them(artifact: npugraph.Artifact, tmp_path: Path) -> None:
    text = drawn(artifact, tmp_path)["time"]["text"]
    assert "3 tasks of 5 run Python" in text and "python_tasks.plus_one, python_tasks.halve_." in text
    assert "one at a time, also on several streams" in text
    assert sum(task["python"] for task in facts(artifact)["tasks"]) == 3
