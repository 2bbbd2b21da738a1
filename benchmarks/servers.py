# SPDX-License-Identifier: Apache-2.0
"""Servers of OpenAI's completions that benchmarks start, each in an environment of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from benchmarks import machine, peers, processes, serving_load, sides

PEERS = processes.ROOT / ".venv-serving-peers"
OURS_014 = f"{sides.OURS}-0.14"
PAIRS = {sides.OURS: "0.30", OURS_014: "0.14"}  # the pair of vLLM and vllm-ascend on which a side of ours runs
MAX_TOKENS = 1024  # of a prompt and its answer
MAX_USERS = 64  # whose requests are in one batch
MEMORY = "0.2"  # of the free memory of the host: 64 users need less than 2 GB for their keys and values
READY_SECONDS, END_SECONDS = 600, 60
LOGS = processes.ROOT / "build/servers"  # what the latest server of each side has printed
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Model:
    """SmolLM2-135M-Instruct with weights of one kind, in files that are written once."""

    folder: Path  # for vLLM and transformers
    kind: str  # of weights, as llama.cpp names it

    @property
    def gguf(self) -> Path:
        """The file for llama.cpp."""
        return self.folder.with_name(f"{self.folder.name}-{self.kind.lower()}.gguf")


BF16 = Model(processes.ROOT / "build/models/smollm2", "BF16")
INT8 = Model(processes.ROOT / "build/models/smollm2-int8", "Q8_0")  # 8 bits everywhere, with scales of other blocks


def python_of(side: str) -> str:
    """The interpreter of the environment in which the server of ``side`` runs."""
    folder = processes.ROOT / f".venv-vllm-{PAIRS[side]}" if side in PAIRS else PEERS
    return str(folder / "bin/python")


def client_python() -> str:
    """An interpreter that has aiohttp, the same for all sides."""
    candidates = [python_of(side) for side in (peers.VLLM_CPU, *PAIRS)]
    return next(python for python in candidates if Path(python).exists())


def command(side: str, model: Model, options: Sequence[str] = ()) -> list[str]:
    """The command that starts ``side``, but for its port. ``options`` come behind those of the command."""
    named = [str(model.folder), f"--served-model-name={serving_load.MODEL}"]
    if side in PAIRS:
        return [python_of(side), "-m", "npugraph", "serve", *named, *options]
    if side == peers.VLLM_CPU:
        return [python_of(side), "-m", "vllm.entrypoints.cli.main", "serve", *named, *options]
    return [str(PEERS / "bin/llama-server"), "--model", str(model.gguf), *options]


def options_for(side: str, threads: int) -> list[str]:
    """The options under which all sides have the same limits."""
    if side == peers.LLAMA:
        slots = ["--parallel", str(MAX_USERS), "--ctx-size", str(MAX_USERS * MAX_TOKENS)]
        return [*slots, "--threads", str(threads), "--threads-batch", str(threads)]
    limits = [f"--max-model-len={MAX_TOKENS}", f"--max-num-seqs={MAX_USERS}"]
    return [*limits, f"--gpu-memory-utilization={MEMORY}"]


def environment_of(side: str, cache: Path) -> dict[str, str]:
    """The variables of the server of ``side``. What it keeps of a start lies in a folder of ``cache``."""
    home = cache / side
    home.mkdir(exist_ok=True)
    known = processes.environment_at(home)
    known.pop("PYTHONPATH", None)
    known |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    if side == peers.VLLM_CPU:
        known |= {"VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, sorted(os.sched_getaffinity(0))))}
        # The documentation of vLLM advises these libraries for its best performance.
        libraries = [PEERS / "lib/libiomp5.so", PEERS / "lib/libtcmalloc_minimal.so.4"]
        known |= {"LD_PRELOAD": ":".join(map(str, libraries))}
    return known


class Server:
    """The server that ``command`` starts on a free port of this host."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: IO[str]) -> None:
        self._log = log
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        # The server ends when this process does, however that comes.
        bound = ["setpriv", "--pdeathsig", "TERM"]
        self._process = subprocess.Popen(
            [*bound, *command, "--host", "127.0.0.1", "--port", str(port)],
            env=environment,
            cwd=LOGS,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def alive(self) -> bool:
        return self._process.poll() is None

    def answers(self) -> bool:
        """Whether the server takes requests."""
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=10) as response:
                return response.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def wait_until_ready(self) -> None:
        end = time.monotonic() + READY_SECONDS
        while not self.answers():
            if not self.alive() or time.monotonic() > end:
                what = "takes no requests" if self.alive() else f"ended with status {self._process.returncode}"
                raise RuntimeError(f"the server {what}; see {self._log.name}")
            time.sleep(POLL_SECONDS)

    def processes(self) -> list[psutil.Process]:
        """All processes of the server, its own one first."""
        own = psutil.Process(self._process.pid)
        return [own, *own.children(recursive=True)]

    def resident(self) -> int:
        """The resident bytes of all processes of the server. Pages that several of them use count for each."""
        total = 0
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total

    def stop(self) -> None:
        known = self.processes() if self.alive() else []
        machine.adopt_orphans()
        self._process.send_signal(signal.SIGTERM)
        _, left = psutil.wait_procs(known, END_SECONDS)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left)
        self._process.wait()


@contextmanager
def started(side: str, model: Model, options: Sequence[str], cache: Path) -> Iterator[Server]:
    """A server of ``side`` that takes requests. Raises RuntimeError, which names its log, if it does not get there."""
    program = command(side, model, options)
    if not Path(program[0]).exists():
        raise RuntimeError(f"{program[0]} is missing: {made_by(side)} makes it")
    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / f"{side}.log").open("w") as log:
        server = Server(program, environment_of(side, cache), log)
        try:
            server.wait_until_ready()
            yield server
        finally:
            server.stop()


def made_by(side: str) -> str:
    return f"scripts/setup_vllm {PAIRS[side]}" if side in PAIRS else "scripts/setup_serving_peers"


def write_files(side: str, model: Model) -> None:
    """Writes the files of ``model`` that ``side`` loads, unless they are there."""
    if not (BF16.folder / "generation_config.json").exists():
        run_example("smollm2.py", BF16.folder)
    if model == INT8 and not model.folder.exists():
        part = model.folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        run_example("int8.py", BF16.folder, part)
        part.rename(model.folder)
    if side == peers.LLAMA and not model.gguf.exists():
        from npugraph.demo import smollm2

        program = PEERS / "bin/llama-quantize"
        if not program.exists():
            raise RuntimeError(f"{program} is missing: {made_by(side)} makes it")
        part = model.gguf.with_suffix(".part")
        arguments = ["--allow-requantize", smollm2.weights_file(), part, model.kind]
        subprocess.run([program, *arguments], check=True, capture_output=True)
        part.rename(model.gguf)


def run_example(name: str, *arguments: Path) -> None:
    subprocess.run([sys.executable, processes.ROOT / "examples/serving" / name, *arguments], check=True)
