# SPDX-License-Identifier: Apache-2.0
"""Tells which planted faults the tests find: python -m tests.mutation.check [--faults 60] [--only NUMBER,NUMBER]

Builds the tree once with all faults (tests/mutation/plant.py) and runs all tests once, to see which of them reach
which fault. Then it runs for each fault the tests that reach it, cheapest first, until one fails. Changes sources and
restores them at the end, so it wants a tree without changes, such as a clone; `make` builds the product anew
afterwards. Takes an hour or two."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.mutation.plant import SWITCHES, Fault, choose, plant
from tests.python.minutes import saved_seconds

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [ROOT / folder for folder in ("src/lower", "src/passes", "src/codegen", "python/npugraph/driver")]
REACHED = ROOT / "build/reached_faults"
SECONDS = 3600  # that a command may take
NO_TESTS = 5  # what pytest exits with if the markers leave no test
PART = 40  # seconds of the Python tests that run at a time: those that take least come first
# The first failure in the output of each kind of test.
FAILURE = re.compile(r"^(?:FAILED |ERROR |FAIL: npugraph :: |.*Test +#\d+: )(\S+).*", re.M)
REFUSED = re.compile(r"^(\S+\.cc):(\d+):\d+: error", re.M)
NPU = ("tests/python/device/", "tests/python/vllm/")  # files that want torch_npu


def run(command: list[str], **environment: str) -> tuple[int, str]:
    """The exit status and the output of a command. One that takes longer than the tests do is ended."""
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
        output = process.communicate(timeout=SECONDS)[0]
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


def commands(files: set[str] | None = None) -> Iterator[list[str]]:
    """The commands that run these tests, or all: files of Python tests and programs, as `reached` names them."""
    if files is None or "npugraph-opt" in files:
        yield ["scripts/lit", "build/release"]
    units = ["ctest", "--test-dir", "build/release", "--stop-on-failure", "-j", "2"]
    if files is None:
        yield units
        yield ["scripts/test_python", "-q", "-m", "not long"]
        return
    programs = {file.removesuffix("_test") for file in files if not file.endswith(".py")}
    if "npugraph-run" in programs:
        programs.add("tools")
    if programs := sorted(name for name in programs if not name.startswith(("npugraph-", "python"))):
        yield [*units, "-R", f"^({'|'.join(programs)})(_[0-9]+)?$"]
    python = [file for file in files if file.endswith(".py")]
    # A place that a process of Python reaches outside of tests is reached by all tests that start such a process.
    if not python and any(file.startswith("python") for file in files):
        python = list(saved_seconds())
    for part in parts(python):
        arguments = ["-m", "pytest", "-n", "2", "-q", "-x", "-m", "not long", *part]
        yield ["scripts/npu_python" if part[0].startswith(NPU) else "python", *arguments]


def parts(files: list[str]) -> Iterator[list[str]]:
    """Files of Python tests in groups of PART seconds, each with or without torch_npu."""
    seconds = saved_seconds()
    groups: dict[bool, list[str]] = {False: [], True: []}
    for file in sorted(files, key=lambda file: seconds.get(file, PART)):
        group = groups[file.startswith(NPU)]
        if group and sum(seconds.get(other, PART) for other in [*group, file]) > PART:
            yield group[:]
            group.clear()
        group.append(file)
    yield from filter(None, groups.values())


def reached() -> dict[int, set[str]]:
    """Number of a fault -> the files of Python tests and the programs that come to its place. The tests pass."""
    REACHED.unlink(missing_ok=True)
    for command in commands():
        status, output = run(command, PLANTED_FAULTS_REACHED=str(REACHED))
        if status:
            sys.exit(f"tests fail without any fault: {first_failure(output)}")
    places: dict[int, set[str]] = defaultdict(set)
    for line in REACHED.read_text().splitlines():
        number, place = line.split(maxsplit=1)
        places[int(number)].add(place)
    return places


def finds(fault: int, files: set[str]) -> str:
    """The first test that fails with this fault. "" if none does."""
    for command in commands(files):
        status, output = run(command, PLANTED_FAULT=str(fault))
        if status in (0, NO_TESTS):
            continue
        if not FAILURE.search(output) and run(command)[0] not in (0, NO_TESTS):
            sys.exit(f"{' '.join(command)} fails without any fault: {first_failure(output)}")
        return first_failure(output)
    return ""


def first_failure(output: str) -> str:
    first = FAILURE.search(output)
    return first[1] if first else output.strip().splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=lambda text: list(map(int, text.split(","))), help="numbers of faults")
    arguments = parser.parse_args()
    if subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "src", "python"], cwd=ROOT).returncode:
        sys.exit("sources have changes, which this would lose: commit them, or work in a clone")
    found = 0
    try:
        faults = build(arguments.faults, arguments.seed)
        places = reached()
        if arguments.only:
            faults = [fault for fault in faults if fault.number in arguments.only]
        for fault in faults:
            files = places[fault.number]
            first = finds(fault.number, files)
            found += bool(first)
            place = f"{fault.path.relative_to(ROOT)}:{fault.line + 1}"
            print(f"{fault.number:3} {place}: {fault.before.strip()}", flush=True)
            print(f"      {first or 'NOT FOUND'} ({len(files)} files and programs reach it)", flush=True)
    finally:
        restore()
    print(f"{found} of {len(faults)} faults are found")


if __name__ == "__main__":
    main()
