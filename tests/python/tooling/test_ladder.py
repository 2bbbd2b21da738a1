# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph ladder``: it finds defects that were planted, and none where there is none."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import torch

from npugraph import __main__ as commands
from npugraph.ladder.compare import Tolerance
from tests.python.forks import run_python
from tests.python.tooling import ladder_scripts
from tests.python.tooling.ladder_scripts import marked_line

pytestmark = pytest.mark.feature("9.12")


# Name -> script, and arguments of the ladder. Each ladder runs in a folder of its own.
LADDERS = {
    "custom_pass": ("CUSTOM_PASS", ["script.py"]),
    "wide": ("CUSTOM_PASS", ["--rtol", "0.1", "script.py"]),
    "wrong_rule": ("WRONG_RULE", ["script.py"]),
    "unsteady": ("UNSTEADY_TASK", ["--step", "--out", "found", "script.py"]),
    "nan_step": ("NAN", ["--step", "script.py", "3", "5"]),
    "nan_ignored": ("NAN", ["--step", "--ignore-nan", "script.py", "3", "5"]),
    "bits": ("ATTENTION", ["--rtol", "0", "script.py"]),
    "fine": ("FINE", ["script.py"]),
    "fine_step": ("FINE", ["--step", "script.py"]),
    "nothing": ("NAN", ["script.py"]),
    "broken": ("BROKEN", ["script.py"]),
}


class Result:
    def __init__(self, folder: Path, done: subprocess.CompletedProcess[str]) -> None:
        self.folder = folder
        self.code, self.output, self.errors = done.returncode, done.stdout, done.stderr
        self.lines = self.output.splitlines()

    def field(self, name: str) -> str:
        (line,) = (line for line in self.lines if line.startswith(name))
        return line.removeprefix(name).strip()


@pytest.fixture(scope="module")
def ladders(tmp_path_factory):
    """Returns the results of all ladders by name."""
    root = tmp_path_factory.mktemp("ladders")
    for name, (script, _) in LADDERS.items():
        (root / name).mkdir()
        (root / name / "script.py").write_text(getattr(ladder_scripts, script))
    return {
        name: Result(root / name, run_python("-m", "npugraph", "ladder", *arguments, cwd=root / name))
        for name, (_, arguments) in LADDERS.items()
    }


def test_a_custom_pass_that_changes_a_number(ladders) -> None:
    result = ladders["custom_pass"]
    assert result.code == 1, result.output + result.errors
    assert result.lines[0] == "eager            2 results of compiled graphs, taken as right"
    assert result.lines[1] == "aot_eager        the same"
    assert result.field("first step that differs") == "force_eager"
    assert result.field("what makes the difference") == "option post_grad_custom_post_pass"
    line = marked_line(ladder_scripts.CUSTOM_PASS)
    assert result.field("line of the program") == f"script.py:{line} in model"
    assert result.field("first value that differs").startswith("mul: max|difference| ")


def test_a_tolerance_that_is_wide_enough(ladders) -> None:
    result = ladders["wide"]
    assert result.code == 0, result.output + result.errors
    assert result.lines[-1] == "no step differs from eager"


def test_a_rule_that_is_wrong(ladders) -> None:
    result = ladders["wrong_rule"]
    assert result.code == 1, result.output + result.errors
    assert result.field("what makes the difference") == "option pattern_fusion_pass, rule sin_plus"
    line = marked_line(ladder_scripts.WRONG_RULE)
    assert result.field("line of the program") == f"script.py:{line} in model"


def test_the_task_that_differs_from_its_oracle(ladders) -> None:
    result = ladders["unsteady"]
    assert result.code == 1, result.output + result.errors
    assert f"script.py:{marked_line(ladder_scripts.UNSTEADY_TASK)} in model" in result.lines[0]
    assert "planted.count" in result.lines[0]
    assert "comes from   the call of the operator" in result.output
    saved = torch.load(result.folder / "found/task/task.pt")
    ((_, given),) = saved["inputs"].items()
    ((_, made),) = saved["results"].items()
    assert torch.equal(made, given + 1)
    assert torch.equal(saved["wanted"], given + 2)


def test_the_code_of_a_task(ladders) -> None:
    """If no pass makes the difference, the ladder goes on with the tasks. Here passes have renamed the value."""
    result = ladders["bits"]
    assert result.code == 1, result.output + result.errors
    assert result.field("what makes the difference") == "option generate_code"
    line = marked_line(ladder_scripts.ATTENTION)
    assert f"attention_0, run 1, task 0: attention (attention) at script.py:{line} in attention" in result.lines
    assert "  comes from   the code of the task" in result.lines


def test_the_first_nan(ladders) -> None:
    result = ladders["nan_step"]
    assert result.code == 1, result.output + result.errors
    assert result.lines[0].startswith("Model_0, run 1, task ")
    assert result.lines[0].endswith(f" at script.py:{marked_line(ladder_scripts.NAN)} in forward")
    assert "is the first value with a NaN; no operand of the task has one" in result.output
    saved = torch.load(result.folder / "npugraph_ladder/task/task.pt")
    assert saved["inputs"] and not any(value.isnan().any() for value in saved["inputs"].values())
    assert any(value.isnan().all() for value in saved["results"].values())
    assert (result.folder / "npugraph_ladder/task/task.txt").read_text().startswith(result.lines[0])


def test_a_nan_that_torch_makes_too(ladders) -> None:
    result = ladders["nan_ignored"]
    assert result.code == 0, result.errors
    assert re.fullmatch(r"every task .*: 2 runs of graphs, (\d+) of \1 values .* were compared\n", result.output)


@pytest.mark.parametrize("name", ["fine", "fine_step"])
def test_a_script_that_is_right(ladders, name) -> None:
    result = ladders[name]
    assert result.code == 0, result.output + result.errors


def test_most_values_are_compared(ladders) -> None:
    """The other values are random, or have no name in the graph as it was imported."""
    runs, compared, written = map(int, re.findall(r"\d+", ladders["fine_step"].output))
    assert runs == 5  # two steps of training, and one without
    assert 0.8 * written < compared <= written


def test_scripts_that_cannot_be_judged(ladders) -> None:
    result = ladders["nothing"]
    assert result.code == 2
    assert result.errors == "ladder: script.py calls nothing that torch.compile gave to this backend\n"
    result = ladders["broken"]
    assert result.code == 2
    assert result.errors == "ladder: script.py ends with exit code 3 under eager; see npugraph_ladder/eager.log\n"
    assert (result.folder / "npugraph_ladder/eager.log").read_text() == "so far\n"


def test_a_script_that_is_not_there(capsys) -> None:
    assert commands.main(["ladder", "no_such_script.py"]) == 2
    assert capsys.readouterr().err == "ladder: there is no script no_such_script.py\n"


NAN_, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("got", "want", "text"),
    [
        (torch.tensor([1.0, NAN_, INF]), torch.tensor([1.0, NAN_, INF]), None),
        (torch.tensor([1.0, 100.0]), torch.tensor([1.001, 100.0]), None),
        (
            torch.tensor([1.0, 100.0]),
            torch.tensor([1.0, 101.0]),
            "max|difference| 1 is over 0.0101; at [1] 100 instead of 101",
        ),
        (torch.tensor([3]), torch.tensor([4]), "max|difference| 1 is over 0; at [0] 3 instead of 4"),
        (torch.tensor(True), torch.tensor(False), "max|difference| 1 is over 0; at [] 1 instead of 0"),
        (
            torch.tensor([NAN_, 1.0]),
            torch.tensor([1.0, 1.0]),
            "1 of 2 elements are not finite alike; at [0] nan instead of 1",
        ),
        (torch.tensor([-INF]), torch.tensor([INF]), "1 of 1 elements are not finite alike; at [0] -inf instead of inf"),
        (torch.zeros(2), torch.zeros(2, 1), "float32[2] instead of float32[2, 1]"),
        (torch.zeros(0), torch.zeros(0), None),
        (3, 4, "3 instead of 4"),
        ([1], [1, 2], "1 values instead of 2"),
    ],
)
def test_what_counts_as_the_same(got, want, text) -> None:
    assert Tolerance().difference(got, want) == text
