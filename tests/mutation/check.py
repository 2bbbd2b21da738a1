# SPDX-License-Identifier: Apache-2.0
"""Tells which planted faults the tests find: python -m tests.mutation.check [--faults 60] [--only NUMBER,NUMBER]

Builds the tree once with all faults (tests/mutation/plant.py), then runs the tests once for each of them, cheapest
first, until one fails. Changes sources and restores them at the end, so it wants a tree without changes, such as a
clone; `make` builds the product anew afterwards. Takes hours: minutes for a fault that is found early, the time of all
tests for one that is not."""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.mutation.plant import Fault, choose, plant

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [ROOT / folder for folder in ("src/lower", "src/passes", "src/codegen", "python/npugraph/driver")]
# Name of a stage -> its command.
STAGES = {
    "text IR": ["scripts/lit", "build/release"],
    "C++ units": ["ctest", "--test-dir", "build/release", "--stop-on-failure", "-j", "2"],
    "Python": ["scripts/test_python", "-q", "-x", "-m", "not long"],
}
SECONDS = 3600  # of a stage
# The first failure in the output of each of them.
FAILURE = re.compile(r"^(?:FAILED |ERROR |FAIL: npugraph :: |.*Test +#\d+: )(\S+).*", re.M)
REFUSED = re.compile(r"^(\S+\.cc):(\d+):\d+: error", re.M)


def run(command: list[str], fault: int = 0) -> tuple[int, str]:
    """The exit status and the output of a command. One that takes longer than the tests do is ended."""
    environment = os.environ | {
        "PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}",
        "PLANTED_FAULT": str(fault),
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
        faults = choose(FOLDERS, count, seed, refused)
        restore()
        plant(faults, ROOT / "src")
        status, output = run(["ninja", "-C", "build/release", "-j2", "-k0"])
        if status == 0:
            return faults
        errors = [(Path(ROOT, "build/release", path).resolve(), int(line)) for path, line in REFUSED.findall(output)]
        # The sources are one line longer than they were, and faults count lines from 0.
        places = {(path, line - 2) for path, line in errors}
        more = places & {(fault.path, fault.line) for fault in faults}
        if not more:
            raise SystemExit(f"the tree does not build:\n{output[-3000:]}")
        refused |= more


def restore() -> None:
    subprocess.run(["git", "checkout", "-q", "--", "src", "python/npugraph"], cwd=ROOT, check=True)
    (ROOT / "src/planted_fault.h").unlink(missing_ok=True)


def finds(fault: int) -> str:
    """The first test that fails with this fault, with its stage. "" if none does."""
    for stage, command in STAGES.items():
        status, output = run(command, fault)
        if status:
            first = FAILURE.search(output)
            return f"{stage}: {first[1] if first else output.strip().splitlines()[-1]}"
    return ""


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
        if arguments.only:
            faults = [fault for fault in faults if fault.number in arguments.only]
        if first := finds(0):
            sys.exit(f"tests fail without any fault: {first}")
        for fault in faults:
            first = finds(fault.number)
            found += bool(first)
            place = f"{fault.path.relative_to(ROOT)}:{fault.line + 1}"
            print(f"{fault.number:3} {place}: {fault.before.strip()}", flush=True)
            print(f"      {first or 'NOT FOUND'}", flush=True)
    finally:
        restore()
    print(f"{found} of {len(faults)} faults are found")


if __name__ == "__main__":
    main()
