# SPDX-License-Identifier: Apache-2.0
"""Small tasks that do not depend on each other as one task: which ones, equal results, and what explain() says."""

from __future__ import annotations

import pytest
import torch

import npugraph
from tests.python.backend.checks import compile_ex, task_names

BRANCHES, ROWS, WIDTH = 4, 16, 96


class Branches(torch.nn.Module):
    """Computes branches that meet in a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        layers = [torch.nn.Linear(WIDTH, WIDTH) for _ in range(2 * BRANCHES)]
        self.first, self.second = torch.nn.ModuleList(layers[:BRANCHES]), torch.nn.ModuleList(layers[BRANCHES:])

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        hidden = [torch.relu(layer(x)) for layer, x in zip(self.first, inputs, strict=True)]
        return torch.cat([torch.tanh(layer(x)) for layer, x in zip(self.second, hidden, strict=True)], -1)


class Adapters(torch.nn.Module):
    """Adds low-rank updates of several adapters to one product, each for rows of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(WIDTH, WIDTH) / 10)
        self.down = torch.nn.ParameterList([torch.randn(WIDTH, 32) / 10 for _ in range(BRANCHES)])
        self.up = torch.nn.ParameterList([torch.randn(32, WIDTH) / 10 for _ in range(BRANCHES)])

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        adapters = zip(inputs, self.down, self.up, strict=True)
        return [x @ self.weight + (x @ down) @ up for x, down, up in adapters]


def update(*tensors: torch.Tensor) -> None:
    """Steps an optimizer: each parameter in place, from its gradient."""
    for parameter, gradient in zip(tensors[:BRANCHES], tensors[BRANCHES:], strict=True):
        parameter.sub_(0.1 * gradient / (gradient.square().sqrt() + 1e-6))


def inputs(count: int = BRANCHES, rows: int = ROWS) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(rows, WIDTH) for _ in range(count)]


def both(fn, *tensors, **arguments):
    """Checks that results with and without groups are equal bit by bit, also what is written in place. Returns the
    artifact with groups and the one without."""
    npugraph.reset()
    apart = compile_ex(fn, options={"horizontal_fusion": False}, **arguments)
    together = compile_ex(fn, **arguments)
    with torch.no_grad():
        for _ in range(3):
            mine, plain = [x.clone() for x in tensors], [x.clone() for x in tensors]
            torch.testing.assert_close(together(*mine), apart(*plain), rtol=0, atol=0)
            torch.testing.assert_close(mine, plain, rtol=0, atol=0)
    grouped, plain = npugraph.artifacts()
    assert not any(task.kind == "group" for task in plain.tasks)
    return grouped, plain


def test_branches_are_groups_level_by_level():
    grouped, plain = both(Branches(), *inputs())
    assert task_names(grouped)[:2] == ["group.4x_matmul.addmm.relu", "group.4x_matmul.addmm"]
    assert len(plain.tasks) == len(grouped.tasks) + 2 * (BRANCHES - 1)
    page = grouped.explain()
    assert "Tasks that do not depend on each other\n  4x_matmul.addmm.relu: one task, saves about" in page
    assert "do not depend on each other" not in plain.explain()
    with npugraph.task_log() as log, torch.no_grad():
        torch.compile(Branches(), backend="npugraph_ex")(*inputs())
    assert [entry.kind for entry in log][:2] == ["group", "group"]


def test_adapters_of_one_product_are_grouped():
    grouped, plain = both(Adapters(), *inputs(rows=64))
    assert any(task.kind == "group" for task in grouped.tasks)
    assert len(grouped.tasks) < len(plain.tasks)


def test_steps_of_an_optimizer_stay_in_place():
    parameters, gradients = inputs(rows=64), inputs(rows=64)
    grouped, plain = both(update, *parameters, *gradients)
    assert [task.kind for task in grouped.tasks] == ["group"]
    assert grouped.memory["copied_bytes_per_replay"] == plain.memory["copied_bytes_per_replay"] == 0


def test_unknown_sizes():
    grouped, _ = both(Branches(), *inputs(), dynamic=True)
    assert [task.kind for task in grouped.tasks][:2] == ["group", "group"]


def test_static_kernels_of_a_group():
    def fn(*tensors):
        return [torch.softmax(x * 2, -1) for x in tensors]

    npugraph.reset()
    compiled = torch.compile(fn, backend="npugraph_ex", dynamic=True, options={"static_kernel_compile": True})
    for rows in (40, 50):
        given = inputs(rows=rows)
        torch.testing.assert_close(compiled(*given), fn(*given))
    (artifact,) = npugraph.artifacts()
    assert [task.kind for task in artifact.tasks] == ["group"]
    assert artifact.counters["static_kernels"] == 2


def test_chains_stay_apart():
    def fn(x):
        for _ in range(4):
            x = torch.softmax(x @ x, -1)
        return x

    grouped, plain = both(fn, torch.randn(WIDTH, WIDTH))
    assert task_names(grouped) == task_names(plain)


def test_operators_that_may_fail_stay_apart():
    def fn(table, *indices):
        return [table[index] * 2 for index in indices]

    index = torch.arange(64)
    grouped, plain = both(fn, torch.randn(64, WIDTH), *[index.flip(0) for _ in range(4)])
    assert task_names(grouped) == task_names(plain) != []


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_do_not_depend_on_the_number_of_threads(threads):
    before = torch.get_num_threads()
    model = Branches()
    compiled = torch.compile(model, backend="npugraph_ex")
    try:
        with torch.no_grad():
            expected = compiled(*inputs())
            torch.set_num_threads(threads)
            torch.testing.assert_close(compiled(*inputs()), expected, rtol=0, atol=0)
    finally:
        torch.set_num_threads(before)


def test_saved_programs_have_groups(tmp_path):
    model = Branches()
    with torch.no_grad():
        expected = torch.compile(model, backend="npugraph_ex")(*inputs())
    npugraph.artifacts()[-1].save(tmp_path / "branches")
    loaded = npugraph.load(tmp_path / "branches", model)
    with npugraph.task_log() as log:
        torch.testing.assert_close(loaded(*inputs()), expected, rtol=0, atol=0)
    assert [entry.kind for entry in log][:2] == ["group", "group"]
