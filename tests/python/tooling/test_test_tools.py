# SPDX-License-Identifier: Apache-2.0
"""What the tests themselves use: which of them run, and processes that need not import torch."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.python.forks import run_python
from tests.python.selection import cheapest, each_value


@pytest.mark.parametrize("counts", [(3, 1), (2, 2), (4, 2), (2, 3, 5)])
def test_a_selection_has_each_value_of_each_parameter(counts: tuple[int, ...]) -> None:
    combinations = [()]
    for place, count in enumerate(counts):
        combinations = [(*row, f"{place} {value}") for row in combinations for value in range(count)]
    kept = each_value(combinations)
    assert kept <= set(combinations) and len(kept) == max(counts)
    assert {value for row in kept for value in row} == {value for row in combinations for value in row}


def test_parameters_of_a_selection_do_not_go_in_step() -> None:
    combinations = list(itertools.product("ab", "01", "cdefgh", "xy"))
    kept = each_value(combinations)
    assert len(kept) == 6
    for places in itertools.combinations((0, 1, 3), 2):
        assert len({tuple(row[place] for place in places) for row in kept}) == 4


def test_a_selection_takes_combinations_that_exist() -> None:
    combinations = [("a", "0"), ("a", "1"), ("b", "1"), ("c", "2")]
    assert each_value(combinations) == {("a", "0"), ("b", "1"), ("c", "2")}


def test_files_with_most_tests_for_their_time_come_first() -> None:
    tests, seconds = {"a": 10, "b": 100, "c": 5, "new": 7}, {"a": 10.0, "b": 20.0, "c": 50.0, "gone": 0.1}
    assert cheapest(tests, seconds, 29) == {"b", "new"}
    assert cheapest(tests, seconds, 30) == {"a", "b", "new"}
    assert cheapest(tests, seconds, 1000) == {"a", "b", "c", "new"}


SCRIPT = """\
import atexit, os, sys
atexit.register(print, "the end")
print(__name__, sys.argv[1:], sys.path[0], os.getcwd(), os.environ.get("OF_THE_TEST"), globals().get("__file__"))
print("to stderr", file=sys.stderr)
if "fail" in sys.argv:
    raise ValueError("of the test")
sys.exit(3)
"""


@pytest.mark.parametrize("last", ["end", "fail"])
@pytest.mark.parametrize("how", ["file", "-c", "-m"])
def test_forked_programs_do_what_programs_do(how: str, last: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SCRIPT)
    words = {"file": ["program.py"], "-c": ["-c", SCRIPT], "-m": ["-m", "program"]}[how] + [last]
    environment = os.environ | {"OF_THE_TEST": "1"}
    wanted = subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
    got = run_python(*words, cwd=tmp_path, env=environment)
    assert (got.returncode, got.stdout, got.stderr) == (wanted.returncode, wanted.stdout, wanted.stderr)


def test_forked_programs_end_in_time() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_python("-c", "import threading; threading.Event().wait()", timeout=0.1)
    assert run_python("-c", "print(1)").stdout == "1\n"


def test_what_torch_reads_when_it_is_imported_is_not_too_late() -> None:
    program = "import torch; print(torch.get_num_threads())"
    assert run_python("-c", program, env=os.environ | {"OMP_NUM_THREADS": "1"}).stdout == "1\n"
