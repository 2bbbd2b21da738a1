# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of the ladder, and bisects the one that goes wrong."""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from npugraph import backend
from npugraph.ladder.child import flush, run_script
from npugraph.ladder.compare import Tolerance
from npugraph.ladder.record import Difference, Recorded, Recorder
from npugraph.ladder.stepping import Finding, Stepper
from npugraph.ladder.steps import EAGER, Step, Switch, rungs, switches

FOUND = 86  # exit code of a process that ``--step`` stopped


class CannotRun(Exception):
    """The script itself fails, or does nothing that could be compared."""


@dataclasses.dataclass(frozen=True)
class Cause:
    """The first step that differs, the switch that makes the difference (None if no switch does), and the first value
    that differs."""

    step: Step
    difference: Difference
    switch: Switch | None = None
    rule: str | None = None
    rule_source: str = ""
    value: Difference | None = None
    is_code: bool = False  # no pass over graphs, but the code that is made of them


class Ladder:
    """Runs of one script. Logs stay in ``logs``. Results lie in ``scratch``, which the caller removes."""

    def __init__(
        self,
        script: str,
        arguments: list[str],
        logs: Path,
        scratch: Path,
        tolerance: Tolerance,
        tell: Callable[[str], None],
    ) -> None:
        self.script, self.arguments, self.logs, self.scratch = script, arguments, logs, scratch
        self.tolerance, self.tell = tolerance, tell
        self.runs = 0
        logs.mkdir(parents=True, exist_ok=True)

    def climb(self) -> Cause | None:
        """Runs the steps in order until one differs from eager, and looks for the cause. Raises ``CannotRun``."""
        eager, code = self._run(EAGER)
        if code != 0:
            raise CannotRun(f"{self.script} ends with exit code {code} under {EAGER.name}; see {self._log(EAGER)}")
        if not eager.entries:
            raise CannotRun(f"{self.script} calls nothing that torch.compile gave to this backend")
        self.tell(f"{EAGER.name:<16} {len(eager.entries)} results of compiled graphs, taken as right")
        for step in rungs():
            difference = self._difference(eager, step)
            self.tell(f"{step.name:<16} {'the same' if difference is None else f'differs: {difference}'}")
            if difference is not None:
                self._check_repeats(eager)
                return self._look_for_cause(eager, step, difference)
        return None

    def step_through(self, step: Step, found: Path, looks_for_nan: bool) -> tuple[int, str]:
        """Runs the script under ``step`` until a task goes wrong, and saves that task in ``found`` (``Stepper``).
        Returns the exit code, ``FOUND`` in that case, and a sentence about what was compared."""
        summary = self.scratch / "summary"

        def stop(finding: Finding) -> None:
            save(finding, found)
            flush()
            os._exit(FOUND)

        stepper = Stepper(self.tolerance, stop, looks_for_nan)

        def prepare() -> None:
            backend.interposers.append(
                lambda compile_, gm, inputs, config, decompositions: compile_(
                    gm, inputs, step.config(config), decompositions
                )
            )
            stepper.__enter__()

        def finish() -> None:
            if stepper.runs:
                counts = f"{stepper.compared} of {stepper.written} values"
                summary.write_text(f"{stepper.runs} runs of graphs, {counts} that tasks wrote were compared")

        code = run_script(self.script, self.arguments, self.logs / "step.log", prepare, finish)
        return code, summary.read_text() if summary.exists() else ""

    def _run(self, step: Step, values_of: int | None = None) -> tuple[Recorded, int]:
        folder = self.scratch / str(self.runs)
        self.runs += 1

        def prepare() -> None:
            backend.interposers.append(Recorder(step, folder, values_of).compile)

        code = run_script(self.script, self.arguments, self._log(step), prepare)
        return Recorded(folder), code

    def _log(self, step: Step) -> Path:
        return self.logs / f"{step.name}.log"

    def _difference(self, eager: Recorded, step: Step) -> Difference | None:
        recorded, code = self._run(step)
        found = eager.first_difference(recorded, self.tolerance)
        if code != 0:
            return Difference(found.call if found else 0, f"exit code {code}; see {self._log(step)}", "")
        return found

    def _check_repeats(self, eager: Recorded) -> None:
        again, _ = self._run(EAGER)
        if eager.first_difference(again, self.tolerance) is not None:
            raise CannotRun(f"{self.script} gives other numbers at each run, also under eager: fix its seeds first")

    def _look_for_cause(self, eager: Recorded, step: Step, difference: Difference) -> Cause:
        cause = Cause(step, difference)
        if step.front != "npugraph_ex":
            return cause
        if step.name != rungs()[1].name:  # an earlier step was right with the same graph
            return dataclasses.replace(cause, is_code=True)
        importlib.import_module("npugraph.fx.passes.replacements")  # takes a second, once for all forks
        all_ = switches()
        self.tell(f"looking among {len(all_)} switches")
        if self._difference(eager, _without(step, all_)) is not None:
            return dataclasses.replace(cause, is_code=True)
        first = self._bisect(all_, lambda off: self._difference(eager, _without(step, off)) is not None)
        switch, after = all_[first], all_[first + 1 :]
        cause = dataclasses.replace(cause, switch=switch, is_code=switch.name == "generate_code")
        if cause.is_code:
            return cause
        right, _ = self._run(_without(step, [switch, *after]), difference.call)
        wrong, _ = self._run(_without(step, after), difference.call)
        value = right.first_value(wrong, self.tolerance)
        cause = dataclasses.replace(cause, value=value)
        return self._look_for_rule(eager, cause, wrong) if switch.name == "pattern_fusion_pass" else cause

    def _look_for_rule(self, eager: Recorded, cause: Cause, wrong: Recorded) -> Cause:
        used = wrong.rules
        names = list(used)
        if not names:
            return cause

        def differs(off: Sequence[str]) -> bool:
            return self._difference(eager, dataclasses.replace(cause.step, rules_off=tuple(off))) is not None

        first = self._bisect(names, differs)
        return dataclasses.replace(cause, rule=names[first], rule_source=used[names[first]])

    def _bisect(self, items: Sequence, differs: Callable[[Sequence], bool]) -> int:
        """The index of an item that makes the result differ: it differs with all items behind this one off, and does
        not with this one off, too. ``differs`` gets the items that are off. The result differs with nothing off, and
        not with everything off."""
        right, wrong = 0, len(items)  # how many are on
        while wrong - right > 1:
            middle = (right + wrong) // 2
            if differs(items[middle:]):
                wrong = middle
            else:
                right = middle
        return wrong - 1


def save(finding: Finding, folder: Path) -> None:
    """Writes ``task.txt`` for people, and ``task.pt`` with the operands."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "task.txt").write_text(describe(finding))
    torch.save(finding.tensors(), folder / "task.pt")


def describe(finding: Finding) -> str:
    where = f" at {finding.source}" if finding.source else ""
    lines = [
        f"{finding.artifact}, run {finding.run}, task {finding.task}: {finding.name} ({finding.kind}){where}",
        f"  stands for   {finding.origin}",
        f"  problem      {finding.problem}",
    ]
    if finding.cause:
        lines.append(f"  comes from   {finding.cause}")
    lines += [f"  reads        {name}: {_kind(tensor)}" for name, tensor in finding.inputs]
    lines += [f"  writes       {name}: {_kind(tensor)}" for name, tensor in finding.results]
    return "\n".join(lines) + "\n"


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _without(step: Step, off: Sequence[Switch]) -> Step:
    return dataclasses.replace(step, off=tuple(off))
