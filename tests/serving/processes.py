# SPDX-License-Identifier: Apache-2.0
"""Servers that tests start as a user does."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psutil

READY = "Application startup complete"
SMALL = [
    "--max-model-len=512",
    "--max-num-seqs=4",
    "--gpu-memory-utilization=0.1",
    "--cudagraph-capture-sizes",
    "1",
    "4",
]
# What a user types before the model.
OURS = (sys.executable, "-m", "npugraph", "serve")
VLLM = (str(Path(sys.executable).with_name("vllm")), "serve")
DIED = re.compile("(died|exited) unexpectedly")  # what vLLM says of a process that was killed
GRACE = 120  # seconds until a process that should end counts as one that hangs


class Server:
    """A server of ``program`` on a free port, from its start to the end of its last process."""

    def __init__(
        self, model: str, *options: str, environment: Mapping[str, str], program: Sequence[str] = OURS
    ) -> None:
        self.port = free_port()
        self.root = f"http://localhost:{self.port}"
        self._lines: list[str] = []
        self._ready = threading.Event()
        self.process = subprocess.Popen(
            [*program, model, f"--port={self.port}", *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.append(line)
            if READY in line:
                self._ready.set()
        self._ready.set()  # no process of the server writes any more

    def wait_until_failed(self) -> Server:
        self._ready.wait()
        assert READY not in self.output, self.output
        assert self.wait() != 0, self.output
        return self

    @property
    def output(self) -> str:
        return "".join(self._lines)

    def wait_until_ready(self) -> Server:
        self._ready.wait()
        assert READY in self.output, self.output
        return self

    def processes(self) -> list[psutil.Process]:
        """All processes of the server, its own one first."""
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def wait(self) -> int:
        """The exit code, once all processes of the server have ended."""
        code = self.process.wait(GRACE)
        _, alive = psutil.wait_procs(session(self.process.pid), GRACE)
        assert not alive, f"{alive} of the server live on\n{self.output}"
        self._reader.join()
        return code

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """Ends what is left, for a test that has failed."""
        for process in session(self.process.pid):
            process.kill()


def session(leader: int) -> list[psutil.Process]:
    """The processes that still run in the session that the process ``leader`` began."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (ProcessLookupError, psutil.NoSuchProcess):
            continue  # it has ended by now
    return found


def serving(model: str, *options: str, environment: Mapping[str, str]) -> AbstractContextManager[Server]:
    """A small server of ours that is ready. It is stopped at the end, which must be clean."""
    return ready(Server(model, *SMALL, *options, environment=environment))


@contextmanager
def ready(server: Server) -> Iterator[Server]:
    """``server`` once it is ready. It is stopped at the end, which must be clean."""
    try:
        yield server.wait_until_ready()
        assert server.stop() == 0, server.output
        assert not DIED.search(server.output), server.output
    finally:
        server.kill()


def run_command(*command: object, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """What a command, which must succeed, has written."""
    done = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def printed(script: Path, *arguments: object, environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """The lines of JSON that a script prints in a process of its own, which must succeed."""
    return objects(run_command(sys.executable, script, *arguments, environment=environment).stdout)


def objects(text: str) -> list[dict[str, Any]]:
    """The objects of JSON in ``text``, each of which has a line."""
    return [json.loads(line) for line in text.splitlines() if line.startswith('{"')]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]
