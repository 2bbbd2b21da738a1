# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph ladder``: it finds defects that were planted, and none where there is none."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from npugraph import __main__ as commands
from npugraph.ladder.compare import Tolerance
from tests.python.tooling import ladder_scripts
from tests.python.tooling.ladder_scripts import marked_line

pytestmark = pytest.mark.feature("9.12")


class Result:
    def __init__(self, folder, name: str, *arguments: str, options: tuple[str, ...] = ()) -> None:
        (folder / "script.py").write_text(getattr(ladder_scripts, name))
        command = [sys.executable, "-m", "npugraph", "ladder", *options, "script.py", *arguments]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200)
        self.code, self.output, self.errors = done.returncode, done.stdout, done.stderr
        self.lines = self.output.splitlines()

    def field(self, name: str) -> str:
        (line,) = (line for line in self.lines if line.startswith(name))
        return line.removeprefix(name).strip()


def test_a_custom_pass_that_changes_a_number(tmp_path) -> None:
    result = Result(tmp_path, "CUSTOM_PASS")
    assert result.code == 1, result.output + result.errors
    assert result.lines[0] == "eager            2 results of compiled graphs, taken as right"
    assert result.lines[1] == "aot_eager        the same"
    assert result.field("first step that differs") == "force_eager"
    assert result.field("what makes the difference") == "option post_grad_custom_post_pass"
    line = marked_line(ladder_scripts.CUSTOM_PASS)
    assert result.field("line of the program") == f"script.py:{line} in model"
    assert result.field("first value that differs").startswith("mul: max|difference| ")


def test_a_tolerance_that_is_wide_enough(tmp_path) -> None:
    result = Result(tmp_path, "CUSTOM_PASS", options=("--rtol", "0.1"))
    assert result.code == 0, result.output + result.errors
    assert result.lines[-1] == "no step differs from eager"


def test_a_rule_that_is_wrong(tmp_path) -> None:
    result = Result(tmp_path, "WRONG_RULE")
    assert result.code == 1, result.output + result.errors
    assert result.field("what makes the difference") == "option pattern_fusion_pass, rule sin_plus"
    line = marked_line(ladder_scripts.WRONG_RULE)
    assert result.field("line of the program") == f"script.py:{line} in model"


def test_the_task_that_differs_from_its_oracle(tmp_path) -> None:
    result = Result(tmp_path, "UNSTEADY_TASK", options=("--step", "--out", "found"))
    assert result.code == 1, result.output + result.errors
    assert f"script.py:{marked_line(ladder_scripts.UNSTEADY_TASK)} in model" in result.lines[0]
    assert "planted.count" in result.lines[0]
    assert "comes from   the call of the operator" in result.output
    saved = torch.load(tmp_path / "found/task/task.pt")
    ((_, given),) = saved["inputs"].items()
    ((_, made),) = saved["results"].items()
    assert torch.equal(made, given + 1)
    assert torch.equal(saved["wanted"], given + 2)


def test_the_first_nan(tmp_path) -> None:
    result = Result(tmp_path, "NAN", "3", "5", options=("--step",))
    assert result.code == 1, result.output + result.errors
    assert result.lines[0].startswith("Linear_0, run 1, task ")
    assert result.lines[0].endswith(f" at script.py:{marked_line(ladder_scripts.NAN)} in forward")
    assert "is the first value with a NaN; no operand of the task has one" in result.output
    saved = torch.load(tmp_path / "npugraph_ladder/task/task.pt")
    assert not any(value.isnan().any() for value in saved["inputs"].values())
    assert any(value.isnan().all() for value in saved["results"].values())
    assert (tmp_path / "npugraph_ladder/task/task.txt").read_text().startswith(result.lines[0])


def test_a_nan_that_torch_makes_too(tmp_path) -> None:
    result = Result(tmp_path, "NAN", "3", "5", options=("--step", "--ignore-nan"))
    assert (result.code, result.output) == (0, "every task gives what torch gives\n"), result.errors
    result = Result(tmp_path, "NAN", "3", "5")
    assert (result.code, result.lines[-1]) == (0, "no step differs from eager"), result.errors


@pytest.mark.parametrize("options", [(), ("--step",)])
def test_a_script_that_is_right(tmp_path, options) -> None:
    result = Result(tmp_path, "FINE", options=options)
    assert result.code == 0, result.output + result.errors


def test_a_script_that_compiles_nothing(tmp_path) -> None:
    result = Result(tmp_path, "NAN")
    assert result.code == 2
    assert result.errors == "ladder: script.py calls nothing that torch.compile gave to this backend\n"
    (tmp_path / "broken.py").write_text("print('so far'); raise SystemExit(3)")
    log = tmp_path / "npugraph_ladder/eager.log"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        done = subprocess.run([sys.executable, "-m", "npugraph", "ladder", "broken.py"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "ladder: broken.py ends with exit code 3 under eager; see npugraph_ladder/eager.log\n"
    assert log.read_text() == "so far\n"


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
