# SPDX-License-Identifier: Apache-2.0
"""Sweeps many models in GE mode: scripts/ge_models [--cases PATTERNS] [--dtypes float32] [--no-times]

Each model is compiled twice, through npugraph_ex and in GE mode, where an operator without a converter is an error. A
model that this refuses runs again with its missing operators run eagerly. Outputs are judged as those of the model
set, against float64. Times are taken in turns. The exit status says whether the bars hold.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch._dynamo
import transformers

from benchmarks import harness, machine
from benchmarks.model_case import ERROR_FACTORS, ModelCase, allowed_error, flatten_outputs, relative_errors, run64
from benchmarks.sides import OURS
from benchmarks.sweep_models import SWEEP
from torchair import CompilerConfig, get_npu_backend

BATCH = 2
DTYPES = ("float32", "bfloat16")
GE = "torchair"
DESCRIPTION = __doc__.partition("\n\n")[2] if __doc__ else ""
SAMPLES, MORE_SAMPLES = 9, 31
LEAST_MODELS = 80
LEAST_WHOLE = 0.95  # share of models that are one graph
MOST_TIME = 1.05  # the sum of times over that of npugraph_ex
SLOWER = 1.1  # the most for one model


@dataclass
class Outcome:
    """A model in one element type. Errors are the largest of all outputs; times are seconds of a call."""

    kind: str
    name: str
    dtype: str
    failure: str = ""
    refusal: str = ""  # why it is not compiled with missing operators as errors
    graphs: int = 0
    error: float = 0.0
    eager_error: float = 0.0
    right: bool = False
    seconds: float = 0.0
    npugraph_ex: float = 0.0

    @property
    def whole(self) -> bool:
        return self.graphs == 1 and not self.refusal and not self.failure

    @property
    def ratio(self) -> float:
        return self.seconds / self.npugraph_ex if self.npugraph_ex else 0.0

    @property
    def remark(self) -> str:
        """Why the model fails or is not one graph."""
        cut = f"Dynamo makes {self.graphs} graphs" if self.graphs > 1 else ""
        return self.failure or ", ".join(filter(None, (self.refusal, cut)))


def reset() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def in_ge_mode(model: Any, missing: str) -> Callable[..., Any]:
    config = CompilerConfig()
    config.debug.missing_converters = missing
    return torch.compile(model, backend=get_npu_backend(compiler_config=config))


def reference(case: ModelCase) -> list[torch.Tensor]:
    """The outputs in float64. Experts run one by one: torch has no grouped product of float64."""
    model = case.build().double()
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")
    return run64(model, case.inputs(BATCH, dtype=torch.float64))


def judge(outcome: Outcome, case: ModelCase, exact: list[torch.Tensor], times: bool) -> None:
    """Fills ``outcome``. Raises what the model raises in GE mode with missing operators run eagerly."""
    dtype = getattr(torch, outcome.dtype)
    model = case.build(dtype=dtype)
    inputs = case.inputs(BATCH, dtype=dtype)
    eager = relative_errors(flatten_outputs(model(**inputs)), exact)
    reset()
    fast = in_ge_mode(model, "error")
    try:
        outputs = fast(**inputs)
    except Exception as error:
        outcome.refusal = reason(error)
        reset()
        fast = in_ge_mode(model, "run_eagerly")
        outputs = fast(**inputs)
    outcome.graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    errors = relative_errors(flatten_outputs(outputs), exact)
    outcome.error, outcome.eager_error = max(errors), max(eager)
    factor = ERROR_FACTORS[outcome.dtype]
    outcome.right = all(ours <= allowed_error(theirs, factor) for ours, theirs in zip(errors, eager, strict=True))
    if times:
        take_times(outcome, fast, torch.compile(model, backend=OURS), inputs)


def take_times(outcome: Outcome, ge: Callable[..., Any], ours: Callable[..., Any], inputs: dict[str, Any]) -> None:
    """A model that seems slower is measured again, longer: other processes disturb a short measurement."""
    sides = [harness.Side(GE, lambda: ge(**inputs)), harness.Side(OURS, lambda: ours(**inputs))]
    for samples in (SAMPLES, MORE_SAMPLES):
        result = harness.measure("ge_models", outcome.name, sides, samples)
        outcome.seconds, outcome.npugraph_ex = (side.median for side in result.sides)
        if outcome.ratio <= SLOWER:
            return


def reason(error: Exception) -> str:
    """What an exception says in a line: the operators without a converter, or its first line."""
    missing = re.findall(r"^ *torch\.ops\.([\w.]+) ge_converter is not implemented", str(error), re.MULTILINE)
    if missing:
        return f"not converted: {', '.join(dict.fromkeys(missing))}"
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def sweep(patterns: tuple[str, ...], dtypes: tuple[str, ...], times: bool) -> Iterator[Outcome]:
    for kind, cases in SWEEP.items():
        for case in cases:
            if not any(fnmatchcase(text, pattern) for text in (case.name, kind) for pattern in patterns):
                continue
            exact = reference(case)
            for dtype in dtypes:
                outcome = Outcome(kind, case.name, dtype)
                try:
                    judge(outcome, case, exact, times)
                except Exception as error:
                    outcome.failure = reason(error)
                yield outcome


HEADER = f"{'model':<22} {'type':<9} {'graphs':>6} {'error':>8} {'eager':>8} {'ms':>8} {OURS:>11} {'ratio':>6}"


def line(outcome: Outcome) -> str:
    state = "FAILS" if outcome.failure else "" if outcome.right else "WRONG"
    return (
        f"{outcome.name:<22} {outcome.dtype:<9} {outcome.graphs:>6} {outcome.error:>8.1e} {outcome.eager_error:>8.1e} "
        f"{1e3 * outcome.seconds:>8.3f} {1e3 * outcome.npugraph_ex:>11.3f} {outcome.ratio:>6.3f} {state} "
        f"{outcome.remark}"
    ).rstrip()


@dataclass
class Bar:
    """A promise, and what was found."""

    text: str
    met: bool


def names(outcomes: list[Outcome], holds: Callable[[Outcome], bool]) -> list[str]:
    """The models for one of whose element types ``holds`` is true, in their order."""
    return list(dict.fromkeys(outcome.name for outcome in outcomes if holds(outcome)))


def bars(outcomes: list[Outcome], whole_set: bool, times: bool) -> Iterator[Bar]:
    models = names(outcomes, lambda outcome: True)
    count = len(models)
    failing = names(outcomes, lambda outcome: bool(outcome.failure))
    wrong = names(outcomes, lambda outcome: not outcome.failure and not outcome.right)
    cut = names(outcomes, lambda outcome: not outcome.whole)
    if whole_set:
        yield Bar(f"{count} models (bar: {LEAST_MODELS})", count >= LEAST_MODELS)
    yield Bar(listed("models fail", failing), not failing)
    yield Bar(listed("models are wrong", wrong), not wrong)
    share = 1 - len(cut) / max(1, count)
    yield Bar(f"{count - len(cut)} models are one graph, {share:.1%} (bar: {LEAST_WHOLE:.0%})", share >= LEAST_WHOLE)
    timed = [outcome for outcome in outcomes if outcome.npugraph_ex]
    if times and timed:
        ours, theirs = sum(o.seconds for o in timed), sum(o.npugraph_ex for o in timed)
        text = f"sum of times {1e3 * ours:.1f} ms, {OURS} {1e3 * theirs:.1f} ms: {ours / theirs:.3f} (bar: {MOST_TIME})"
        yield Bar(text, ours <= MOST_TIME * theirs)
        slow = names(timed, lambda outcome: outcome.ratio > SLOWER)
        yield Bar(listed(f"models are slower than {OURS} by more than a tenth", slow), not slow)


def listed(what: str, which: list[str]) -> str:
    return f"{len(which)} {what}" + (f": {', '.join(which)}" if which else "")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/ge_models", description=DESCRIPTION)
    parser.add_argument("--cases", default="*", metavar="PATTERNS", help='models or kinds: "*moe*,vision"')
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="comma-separated")
    parser.add_argument("--no-times", action="store_true", help="judge graphs and values alone")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="cores to pin to (default: all)")
    return parser.parse_args()


@torch.no_grad()
def main() -> int:
    parsed = parse_arguments()
    patterns, dtypes = tuple(parsed.cases.split(",")), tuple(parsed.dtypes.split(","))
    machine.pin(parsed.threads)
    transformers.utils.logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    outcomes = []
    print(HEADER)
    for outcome in sweep(patterns, dtypes, not parsed.no_times):
        outcomes.append(outcome)
        print(line(outcome), flush=True)
    print()
    met = True
    for bar in bars(outcomes, patterns == ("*",), not parsed.no_times):
        print(f"{'met    ' if bar.met else 'NOT MET'} {bar.text}")
        met &= bar.met
    for outcome in outcomes:
        if outcome.remark:
            print(f"  {outcome.name} {outcome.dtype}: {outcome.remark}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
