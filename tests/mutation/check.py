# SPDX-License-Identifier: Apache-2.0
"""Tells which planted faults the tests find: python -m tests.mutation.check [--faults 60] [--only NUMBER,NUMBER]

Builds the tree once with all faults (tests/mutation/plant.py) and runs all tests once, to see which of them reach
which fault. Then it runs for each fault alone the tests that reach it and take little time. The faults that none of
these find are on together in a run of all Python tests; the tests that fail run again with each of the faults alone.
Found faults are taken out until the others pass. Changes sources and restores them at the end, so it wants a tree
without changes, such as a clone; `make` builds the product anew afterwards. Takes about two hours."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path

from tests.mutation.plant import SWITCHES, Fault, choose, plant
from tests.python.minutes import saved_seconds

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [*(ROOT / "src/core" / layer for layer in ("lower", "passes", "codegen")), ROOT / "python/npugraph/driver"]
REACHED = ROOT / "build/reached_faults"
SECONDS = 3600  # that a command may take
NO_TESTS = 5  # what pytest exits with if the markers leave no test
SHORT = 60  # seconds of the Python tests that run for each fault alone; they run in two processes
SHORT_SECONDS = 300  # that a command of tests for one fault may take: faults can make loops endless
FAILED = 40  # tests that fail before a run of all Python tests ends
# A failure in the output of pytest, lit and ctest. Parameters of Python tests may hold spaces.
FAILURE = re.compile(
    r"^(?:(?:FAILED|ERROR) ([^\[\n]+?(?:\[.*?\])?)(?: - .*)?"
    r"|FAIL: npugraph :: (\S+).*"
    r"|.*Test +#\d+: (\S+).*\*\*\*.*)$",
    re.M,
)
REFUSED = re.compile(r"^(\S+\.cc):(\d+):\d+: error", re.M)
NPU = ("tests/python/device/", "tests/python/vllm/")  # files that want torch_npu


def run(command: list[str], seconds: float = SECONDS, **environment: str) -> tuple[int, str]:
    """The exit status and the output of a command. One that takes longer is ended."""
    environment = os.environ | {
        "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}",
        "OMP_WAIT_POLICY": "PASSIVE",
        **environment,
    }
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=pipe, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output = process.communicate(timeout=seconds)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output = process.communicate()[0] + "\nit takes too long"
    return process.returncode, output


def build(count: int, seed: int) -> list[Fault]:
    """Builds the tree with the faults. Places that do not compile are replaced by others."""
    refused: set[tuple[Path, int]] = set()
    while True:
        restore()
        faults = choose(FOLDERS, count, seed, refused)
        plant(faults, ROOT)
        status, output = run(["ninja", "-C", "build/release", "-j2", "-k0"])
        if status == 0:
            return faults
        errors = [(Path(ROOT, "build/release", path).resolve(), int(line)) for path, line in REFUSED.findall(output)]
        # The sources are one line longer than they were, and faults count lines from 0. GCC may name the line before,
        # whose `if` the fault robs of its `else`.
        places = {(path, line - 2 + below) for path, line in errors for below in (0, 1)}
        more = places & {(fault.path, fault.line) for fault in faults}
        if not more:
            raise SystemExit(f"the tree does not build:\n{output[-3000:]}")
        refused |= more


def restore() -> None:
    subprocess.run(["git", "checkout", "-q", "--", "src", "python/npugraph"], cwd=ROOT, check=True)
    for switch in SWITCHES:
        (ROOT / switch).unlink(missing_ok=True)


ALL_TESTS = [
    ["scripts/lit", "build/release"],
    ["ctest", "--test-dir", "build/release", "-j", "2"],
    ["scripts/test_python", "-q", "-m", "not long"],
]


def short_commands(files: set[str]) -> Iterator[list[str]]:
    """The commands that run the tests of C++ among these, and those of Python that take least time. `files` are test
    files and programs, as `reached` names them."""
    if "npugraph-opt" in files:
        yield ALL_TESTS[0]
    programs = {file.removesuffix("_test") for file in files if not file.endswith(".py")}
    if "npugraph-run" in programs:
        programs.add("tools")
    if programs := sorted(name for name in programs if not name.startswith(("npugraph-", "python"))):
        yield [*ALL_TESTS[1], "--stop-on-failure", "-R", f"^({'|'.join(programs)})(_[0-9]+)?$"]
    seconds = saved_seconds()
    python = sorted(python_files(files), key=lambda file: seconds.get(file, SHORT))
    sums = accumulate(seconds.get(file, SHORT) for file in python)
    for command in python_commands([file for file, total in zip(python, sums, strict=True) if total <= SHORT]):
        yield [*command, "-x"]


def python_files(files: set[str]) -> list[str]:
    """The Python tests among these. A process that is none reaches a place for all tests that start such a process."""
    python = sorted(file for file in files if file.endswith(".py"))
    if not python and any(file.startswith("python") for file in files):
        return list(saved_seconds())
    return python


def python_commands(tests: list[str]) -> Iterator[list[str]]:
    """The commands that run these tests, or all tests of these files, without torch_npu and with it."""
    for python, with_npu in (("python", False), ("scripts/npu_python", True)):
        if chosen := [test for test in tests if test.startswith(NPU) == with_npu]:
            yield [python, "-m", "pytest", "-n", "2", "-q", "--tb=no", "-m", "not long", *chosen]


def reached() -> dict[int, set[str]]:
    """Number of a fault -> the files of Python tests and the programs that come to its place. The tests pass."""
    REACHED.unlink(missing_ok=True)
    for command in ALL_TESTS:
        status, output = run(command, PLANTED_FAULTS_REACHED=str(REACHED))
        if status:
            sys.exit(f"tests fail without any fault: {named(output)[0]}")
    places: dict[int, set[str]] = defaultdict(set)
    for line in REACHED.read_text().splitlines():
        number, place = line.split(maxsplit=1)
        # Tests of pytest's plug-in start a pytest of their own, with files that are gone.
        is_test = not place.endswith(".py") or Path(ROOT, place).is_file()
        places[int(number)].add(place if is_test else "python")
    return places


def found_alone(commands: Iterable[list[str]], fault: int, seconds: float = SECONDS) -> str:
    """The first test of the commands, which take at most so long each, that fails with the fault. "" if none does."""
    return next((failed[0] for command in commands if (failed := failures(command, [fault], seconds))), "")


def found_together(command: list[str], faults: list[int]) -> dict[int, str]:
    """The faults that a command of Python tests finds, each with a test. All are on at a time, and the tests that fail
    run again with each of them alone. Faults that only fail together are told apart by halves."""
    failed = failures([*command, f"--maxfail={FAILED}"], faults) if faults else []
    if not failed:
        return {}
    if len(faults) == 1:
        return {faults[0]: failed[0]}
    again = [[*alone, "-x"] for alone in python_commands([test for test in failed if ".py" in test])]
    found = {fault: test for fault in faults if (test := found_alone(again, fault))}
    left = [fault for fault in faults if fault not in found]
    if found:
        return found | found_together(command, left)
    half = len(left) // 2
    return found_together(command, left[:half]) | found_together(command, left[half:])


def failures(command: list[str], faults: list[int], seconds: float = SECONDS) -> list[str]:
    """The tests of a command that fail with these faults."""
    status, output = run(command, seconds, PLANTED_FAULTS=",".join(map(str, faults)))
    if status in (0, NO_TESTS):
        return []
    if not FAILURE.search(output) and run(command)[0] not in (0, NO_TESTS):
        sys.exit(f"{' '.join(command)} fails without any fault: {named(output)[0]}")
    return named(output)


def named(output: str) -> list[str]:
    """The tests that an output says failed, or its last line."""
    return ["".join(name) for name in FAILURE.findall(output)] or output.strip().splitlines()[-1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=lambda text: list(map(int, text.split(","))), help="numbers of faults")
    arguments = parser.parse_args()
    if subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src", "python"], cwd=ROOT).returncode:
        sys.exit("sources have changes, which this would lose: commit them, or work in a clone")
    found: dict[int, str] = {}
    try:
        faults = build(arguments.faults, arguments.seed)
        places = reached()
        if arguments.only:
            faults = [fault for fault in faults if fault.number in arguments.only]
        for fault in faults:
            files = places[fault.number]
            if test := found_alone(short_commands(files), fault.number, SHORT_SECONDS):
                found[fault.number] = test
            place = f"{fault.path.relative_to(ROOT)}:{fault.line + 1}"
            print(f"{fault.number:3} {place}: {fault.before.strip()}", flush=True)
            print(f"      {test or 'not found yet'} ({len(files)} files and programs reach it)", flush=True)
        left = {fault.number for fault in faults} - found.keys()
        for command in python_commands(sorted({file for fault in left for file in python_files(places[fault])})):
            found |= found_together(command, sorted(left - found.keys()))
    finally:
        restore()
    for number in sorted(left):
        print(f"{number:3} {found.get(number, 'NOT FOUND')}")
    print(f"{len(found)} of {len(faults)} faults are found")


if __name__ == "__main__":
    main()
