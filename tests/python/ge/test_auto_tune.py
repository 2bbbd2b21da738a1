# SPDX-License-Identifier: Apache-2.0
"""``aoe_config``: plans of products that were measured, kept in a repository, and taken from there."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

import torchair
from npugraph import _C
from npugraph.ge import tuning
from tests.python.forks import run_python

# Prints the results of two calls, and what the log of tasks says of the plans of the second.
_SCRIPT = """
import sys
import npugraph, torch, torchair

torch.manual_seed(0)
config = torchair.CompilerConfig()
if len(sys.argv) > 1:
    config.aoe_config.aoe_mode, config.aoe_config.work_path = sys.argv[1:]
x, w, cache = torch.randn(60, 1100), torch.randn(1100, 53), torch.zeros(60, 53)

def step(x, w, cache):
    return cache.add_(torch.relu(x @ w)) + torch.rand(1)

with torch.no_grad():
    fast = torch.compile(step, backend=torchair.get_npu_backend(compiler_config=config))
    results = [fast(x, w, cache).clone()]
    with npugraph.task_log() as tasks:
        results.append(fast(x, w, cache).clone())
(plan,) = [task.plan for task in tasks if task.kind == "matmul"]
torch.save(results, "results.pt")
print(f"plan: {plan}")
"""


def _run(folder: Path, *arguments: str) -> tuple[str, list[torch.Tensor]]:
    (folder / "script.py").write_text(_SCRIPT, encoding="utf-8")
    environment = {**os.environ, "TUNE_BANK_PATH": str(folder / "bank")}
    done = run_python(folder / "script.py", *arguments, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("plan: ")[2].strip(), torch.load(folder / "results.pt")


@pytest.mark.feature("6.09")
def test_a_new_process_runs_the_plan_that_was_kept(tmp_path: Path) -> None:
    plan, expected = _run(tmp_path)
    assert plan == "" and not (tmp_path / "bank").exists()
    (tmp_path / "work").mkdir()
    tuned, results = _run(tmp_path, "2", str(tmp_path / "work"))
    torch.testing.assert_close(results, expected, rtol=0, atol=0)  # the first call counts once, and so do its numbers
    (repository,) = (tmp_path / "bank").iterdir()
    assert repository.read_text(encoding="utf-8").startswith("npugraph tuned products 1\nprocessor ")
    (report,) = (json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "work").iterdir())
    (product,) = report["products"]
    assert report["repository"] == str(repository)
    assert product["cost_model"] in product["microseconds"] and product["chosen"] in product["microseconds"]
    assert product["ratio"] == 1 if product["chosen"] == product["cost_model"] else product["ratio"] < 1
    later, results = _run(tmp_path)
    assert later == tuned != ""
    torch.testing.assert_close(results, expected, rtol=0, atol=0)
    _run(tmp_path, "1", str(tmp_path / "work"))  # the repository knows the product
    assert len(list((tmp_path / "work").iterdir())) == 1


class _Clock:
    """Time as it passes for plans that are given by name."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds, self.now = seconds, 0.0
        self.chosen = ""

    def choose(self, _: str, blocks: str | None) -> None:
        self.chosen = blocks or ""

    def make(self) -> Any:
        seconds = self.seconds[self.chosen]

        def run() -> None:
            self.now += seconds

        return run


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [
        ({"usual": 1e-3, "fast": 0.5e-3, "slow": 2e-3}, "fast"),
        ({"usual": 1e-3, "slow": 1.1e-3}, "usual"),
        ({"usual": 1e-3, "hardly faster": 0.99e-3}, "usual"),
        ({"usual": 1e-2, "fast": 1e-4}, "fast"),
    ],
)
def test_a_plan_has_to_be_clearly_faster(seconds: dict[str, float], chosen: str, monkeypatch: Any) -> None:
    clock = _Clock(seconds)
    monkeypatch.setattr(_C.ge, "choose_product", clock.choose)
    monkeypatch.setattr(tuning.time, "perf_counter", lambda: clock.now)
    product = tuning.tune_product("m 1", list(seconds), clock.make)
    assert (product.cost_model, product.chosen) == ("usual", chosen)
    assert clock.chosen == ""
    expected = seconds[chosen] / seconds["usual"] if chosen != "usual" else 1
    assert product.ratio == pytest.approx(expected, rel=1e-2)


def test_graphs_of_unknown_sizes_and_those_that_act_outside_are_not_tuned(monkeypatch: Any) -> None:
    monkeypatch.setattr(tuning, "tune", lambda *_: pytest.fail("the graph was tuned"))
    config = torchair.CompilerConfig()
    config.aoe_config.aoe_mode = "2"
    x = torch.randn(3, 4)
    for function, dynamic in ((lambda x: x @ x.t(), True), (_printing, False)):
        torch._dynamo.reset()
        fast = torch.compile(function, backend=torchair.get_npu_backend(compiler_config=config), dynamic=dynamic)
        torch.testing.assert_close(fast(x), function(x))


def _printing(x: torch.Tensor) -> torch.Tensor:
    y = x @ x.t()
    torchair.ops.npu_print("y", y)
    return y
