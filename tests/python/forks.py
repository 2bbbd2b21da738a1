# SPDX-License-Identifier: Apache-2.0
"""Runs Python programs in processes of their own that need not import torch first.

A server imports torch and Dynamo once for each process of tests, and forks for each program: most programs of tests
spend their time in these imports. A program whose environment changes how torch is imported starts as usual. So does
what ``subprocess`` runs, for tests of the start itself. Programs of one server have the same hashes of strings and the
same addresses of libraries; ``OWN_HASHES`` gives one others, for tests of what processes leave to each other."""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import linecache
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

# Variables with these beginnings are read while Python starts or torch is imported, but for those of the set.
_EARLY = ("PYTHON", "LD_", "OMP_", "MKL_", "KMP_", "GOMP_", "TORCH", "PYTORCH", "ATEN_", "MALLOC_", "GLIBC_")
_LATE = {"PYTHON", "PYTHONPATH", "TORCHINDUCTOR_CACHE_DIR"}

# Variables for a program that starts as usual.
OWN_HASHES = {"PYTHONHASHSEED": "random"}


def run_python(
    *arguments: str | os.PathLike[str],
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    check: bool = False,
    timeout: float = 600,
    python: str = sys.executable,
) -> subprocess.CompletedProcess[str]:
    """Runs `python *arguments`, as ``subprocess.run`` with captured text does: a file, ``-c`` and a text, or ``-m`` and
    a module. ``timeout`` is in seconds. ``python`` is the interpreter."""
    words = [os.fspath(argument) for argument in arguments]
    variables = dict(os.environ if env is None else env)
    server = _server(python)
    if server.starts_alike(variables):
        done = server.run(words, variables, os.fspath(cwd or os.getcwd()), timeout)
    else:
        done = subprocess.run([python, *words], env=variables, cwd=cwd, capture_output=True, text=True, timeout=timeout)
    if check and done.returncode:
        raise AssertionError(f"{words[:2]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


class _Server:
    """The client's side of a server."""

    def __init__(self, python: str) -> None:
        self._socket, theirs = socket.socketpair()
        self._variables = dict(os.environ)
        with theirs:
            command = [python, __file__, str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        atexit.register(self.close)

    def close(self) -> None:
        self._socket.close()
        self._process.wait()

    def starts_alike(self, variables: Mapping[str, str]) -> bool:
        """Whether a program with these variables would import torch as the server did."""
        names = {name for name in {*variables, *self._variables} if name.startswith(_EARLY)} - _LATE
        return all(variables.get(name) == self._variables.get(name) for name in names)

    def is_usable(self) -> bool:
        return self._socket.fileno() >= 0

    def run(
        self, words: Sequence[str], variables: Mapping[str, str], cwd: str, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        try:
            return self._run(words, variables, cwd, timeout)
        except subprocess.TimeoutExpired:
            raise
        except BaseException:
            self._process.kill()  # a later program would read the answers to this one
            self.close()
            raise

    def _run(
        self, words: Sequence[str], variables: Mapping[str, str], cwd: str, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        request = json.dumps({"words": words, "variables": dict(variables), "cwd": cwd}).encode()
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            header = len(request).to_bytes(8, "little")
            socket.send_fds(self._socket, [header], [out.fileno(), err.fileno()])
            self._socket.sendall(request)
            child = int.from_bytes(_received(self._socket, 8), "little")
            self._socket.settimeout(timeout)
            try:
                status = int.from_bytes(_received(self._socket, 8), "little", signed=True)
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
                self._socket.settimeout(None)
                _received(self._socket, 8)  # of the child that was killed
                raise subprocess.TimeoutExpired(words, timeout) from None
            self._socket.settimeout(None)
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read())
        return subprocess.CompletedProcess(words, status, *texts)


_SERVERS: dict[tuple[int, str], _Server] = {}


def _server(python: str) -> _Server:
    key = os.getpid(), python  # a forked child of the tests needs a server of its own
    if key not in _SERVERS or not _SERVERS[key].is_usable():
        _SERVERS[key] = _Server(python)
    return _SERVERS[key]


def _received(connection: socket.socket, count: int) -> bytes:
    parts = b""
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            raise EOFError("the server of programs, or its client, has ended")
        parts += part
    return parts


def _serve(connection: socket.socket) -> dict[str, Any] | None:
    """Answers requests until there are no more. Returns the request in each child, None in the server."""
    while True:
        try:
            header, files, _, _ = socket.recv_fds(connection, 8, 2)
            request = json.loads(_received(connection, int.from_bytes(header, "little")))
        except (EOFError, ValueError):
            return None
        child = os.fork()
        if child == 0:
            connection.close()
            for place, file in enumerate(files, 1):
                os.dup2(file, place)
                os.close(file)
            return request
        for file in files:
            os.close(file)
        connection.sendall(child.to_bytes(8, "little"))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(BrokenPipeError):
            connection.sendall(status.to_bytes(8, "little", signed=True))


def _run(words: list[str], cwd: str) -> None:
    """Does in this process what `python *words` does after its start."""
    import torch

    main = type(sys)("__main__")
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    what, *rest = words
    os.chdir(cwd)
    torch._dynamo.config.debug_dir_root = os.path.join(cwd, "torch_compile_debug")  # as if torch was imported here
    if what == "-m":
        sys.path.insert(0, cwd)
        sys.argv = rest
        runpy._run_module_as_main(rest[0])
        return
    if what == "-c":
        place, sys.argv, file, text = "", ["-c", *rest[1:]], "<string>", rest[0]
        if sys.version_info >= (3, 13):  # shows lines of it in errors
            linecache.cache[file] = len(text), None, text.splitlines(True), file
    else:
        file = main.__file__ = os.path.abspath(what)
        place, sys.argv, text = str(Path(what).resolve().parent), words, Path(what).read_text()
    sys.path.insert(0, place)
    exec(compile(text, file, "exec"), main.__dict__)


def _print_error(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints an error as Python does, without the frames that end in this file."""
    frames = list(traceback.walk_tb(trace))
    # Not __file__, which Python 3.14 removes from the module of the program before it prints an error.
    here = _print_error.__code__.co_filename
    ours = [i for i, (frame, _) in enumerate(frames) if frame.f_code.co_filename == here]
    for _ in range(ours[-1] + 1 if ours else 0):
        trace = trace and trace.tb_next
    traceback.print_exception(kind, error, trace)


def main() -> None:
    # Children import torch_npu themselves: they may have other variables.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    del sys.path[0]  # the folder of this file
    import torch
    import torch._dynamo

    # Imports what the first compile needs.
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    gc.collect()
    gc.freeze()  # a child's collections neither look at these objects nor copy their pages
    request = _serve(socket.socket(fileno=int(sys.argv[1])))
    if request is None:
        return
    variables = request["variables"]
    before, after = (each.get("PYTHONPATH", "").split(os.pathsep) for each in (os.environ, variables))
    sys.path[:] = [*filter(None, after), *(place for place in sys.path if place not in before)]
    os.environ.clear()
    os.environ.update(variables)
    sys.excepthook = _print_error
    if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
        torch._import_device_backends()
    _run(request["words"], request["cwd"])


if __name__ == "__main__":
    main()
