# SPDX-License-Identifier: Apache-2.0
"""The quick start of GE mode, ``seed_script.txt``, in a process of its own, and what it shows."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from tests.python.forks import run_python

SCRIPT = Path(__file__).with_name("seed_script.txt")

# Runs the script of argv, and afterwards calls its model once more.
_AROUND = """
import json, sys
import npugraph, torch

path = sys.argv[1]
names = {"__name__": "__main__"}
torch.manual_seed(0)
with npugraph.task_log() as tasks:
    exec(compile(open(path).read(), path, "exec"), names)
print("== second call")
again = names["opt_model"](names["x"], names["y"])
assert torch.equal(again, names["x"] + names["y"])
print("==", json.dumps({"sum": str(names["x"] + names["y"]), "tasks": [task.kind for task in tasks]}))
"""


class Outcome(NamedTuple):
    first: str  # what the script wrote to stdout
    second: str  # what the second call wrote to stdout
    sum: str  # the sum of its tensors, as text
    tasks: list[str]  # kinds of the tasks that ran in the script

    def records(self) -> list[str]:
        """The texts of the records of level INFO, in order."""
        return re.findall(r"^\[INFO\] TORCHAIR\(.*?\] ?\d+ (.*)$", self.first, re.MULTILINE)


def run(folder: Path, *, npu: bool) -> Outcome:
    """Runs the script as it is, or without npu, in a process that starts in ``folder``."""
    text = SCRIPT.read_text(encoding="utf-8")
    path = folder / "seed_script.py"
    path.write_text(text if npu else text.replace("import torch_npu\n", "").replace(".npu()", ""), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TNG_")}
    done = run_python("-c", _AROUND, path, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    first, second, facts = done.stdout.split("== ")
    known: dict[str, Any] = json.loads(facts)
    return Outcome(first, second.removeprefix("second call\n"), known["sum"], known["tasks"])


def check(outcome: Outcome) -> None:
    assert outcome.first.endswith(f"{outcome.sum}\n")
    starts = ("Initializing GE with options", "start compile graph: ", "end compile graph: ")
    assert [text for text in outcome.records() if text.startswith(starts)] == [
        "Initializing GE with options:",
        "start compile graph: graph_1.",
        "end compile graph: graph_1 and start run graph.",
    ]
    assert re.fullmatch(r"\[EVENT\] TORCHAIR.* torchair run at .*, compile 0us, graph run: \d+us\n", outcome.second)
    (kind,) = outcome.tasks
    assert kind in ("generated", "kernel")  # the sum of two small tensors may be a precompiled kernel
