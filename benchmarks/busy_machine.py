# SPDX-License-Identifier: Apache-2.0
"""Measures a decode step of SmolLM2's shape and a forward pass of BERT-base (fp32) on a busy machine: beside loops and
beside compilers on both cores, under a quota of 1.5 processors, on one core of two, and in four processes that each
serve the model.

The sides take turns in windows of the system's clock, within one process and under one load. Four processes all serve
the same side at the same time. A sample is the mean time of a call in one window. The ratio is our time over eager's,
as everywhere. A side that is faster at rest has to stay faster in each case.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import machine, processes, sides
from benchmarks.harness import Request, Result, SideResult

NAME = "busy_machine"
MODELS = ("smollm2 decode", "bert")
ROUNDS, QUICK_ROUNDS = 8, 2
LOADS = (2, 4, 8)
SERVERS = 4
QUOTA_US, PERIOD_US = 150_000, 100_000
CPU_GROUPS = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")  # cgroups of version 1 and 2

LOOP = "while True: pass"
# These templates of the standard library keep a compiler busy for a second or two, and take memory, too.
SOURCE = '#include <regex>\n#include <map>\nstd::regex r("a*b"); std::map<int, std::string> m{{1, "x"}};\n'
COMPILE = "while :; do c++ -std=c++20 -O2 -c source.cc -o /dev/null; done"


def run(request: Request) -> Iterator[Result]:
    rounds = QUICK_ROUNDS if request.quick else ROUNDS
    for model in MODELS:
        wanted = [case for case in CASES if request.wants(NAME, f"{model} {case}")]
        if wanted:
            yield from measure(model, wanted, rounds)


def measure(model: str, wanted: Sequence[str], rounds: int) -> Iterator[Result]:
    one = Server(model)
    try:
        for case in wanted:
            with CASES[case](one) as servers:
                yield result(model, case, serve(servers, rounds))
    finally:
        one.close()


class Server:
    """A process that has compiled ``model`` and measures when it is told to."""

    def __init__(self, model: str, cores: int = 0) -> None:
        self.model = model
        bind = ["taskset", "-c", str(min(os.sched_getaffinity(0)))] if cores == 1 else []
        self.process = subprocess.Popen(
            [*bind, sys.executable, "-m", "benchmarks.samples.busy_machine", model],
            env=environment(),
            cwd=processes.ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, word: object) -> None:
        print(word, file=self.process.stdin, flush=True)

    def answer(self) -> processes.Sample:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that serves {self.model} ended with status {self.process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def environment() -> dict[str, str]:
    paths = [str(processes.ROOT), str(processes.ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    changed = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"} | changed


def serve(servers: Sequence[Server], rounds: int) -> list[processes.Sample]:
    """Returns one sample of each server. All servers measure at the same time."""
    for server in servers:
        server.tell("prepare")
    for server in servers:
        server.answer()
    for server in servers:
        server.tell(rounds)
    return [server.answer() for server in servers]


def result(model: str, case: str, samples: Sequence[processes.Sample]) -> Result:
    compared = [
        SideResult(
            side,
            [statistics.mean(times) for times in zip(*(sample["seconds"][side] for sample in samples), strict=True)],
            max(sample["errors"][side] for sample in samples),
        )
        for side in ("eager", sides.OURS)
    ]
    return Result(NAME, f"{model} {case}", compared)


# --- loads that keep the machine busy


@contextlib.contextmanager
def at_rest(server: Server) -> Iterator[list[Server]]:
    yield [server]


def beside_loops(count: int):
    return lambda server: beside(server, [sys.executable, "-c", LOOP], count)


def beside_compilers(count: int):
    return lambda server: beside(server, ["sh", "-c", COMPILE], count)


@contextlib.contextmanager
def beside(server: Server, command: Sequence[str], count: int) -> Iterator[list[Server]]:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        Path(folder, "source.cc").write_text(SOURCE)
        server.tell("prepare")  # the server compiles before the load begins
        server.answer()
        for _ in range(count):
            load = subprocess.Popen(command, cwd=folder, start_new_session=True)
            stack.callback(end, load)
        yield [server]


def end(load: subprocess.Popen) -> None:
    """Ends the process and all processes that it has started."""
    machine.adopt_orphans()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(load.pid, 9)
    load.wait()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-load.pid, 0)


@contextlib.contextmanager
def under_a_quota(server: Server) -> Iterator[list[Server]]:
    parent = next((folder for folder in CPU_GROUPS if (folder / "cgroup.procs").exists()), None)
    if parent is None:
        raise RuntimeError(f"no control group of processors in {' or '.join(map(str, CPU_GROUPS))}")
    group = parent / f"npugraph_benchmark_{os.getpid()}"
    group.mkdir()
    try:
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{QUOTA_US} {PERIOD_US}")
        else:
            (group / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
        (group / "cgroup.procs").write_text(str(server.process.pid))
        yield [server]
    finally:
        (parent / "cgroup.procs").write_text(str(server.process.pid))
        group.rmdir()


@contextlib.contextmanager
def on_one_core(server: Server) -> Iterator[list[Server]]:
    own = Server(server.model, cores=1)
    with contextlib.closing(own):
        yield [own]


@contextlib.contextmanager
def beside_servers(server: Server) -> Iterator[list[Server]]:
    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(contextlib.closing(Server(server.model))) for _ in range(SERVERS - 1)]
        yield [server, *others]


CASES = {
    "at rest": at_rest,
    **{f"{count} loops": beside_loops(count) for count in LOADS},
    **{f"{count} compilers": beside_compilers(count) for count in LOADS},
    "1.5 processors": under_a_quota,
    "one core": on_one_core,
    f"{SERVERS} servers": beside_servers,
}
