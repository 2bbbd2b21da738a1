# SPDX-License-Identifier: Apache-2.0
"""Runs a script in a process that is forked from this one, so that torch need not be imported again.

The threads of a process do not follow into a fork, so this process must have none: it uses torch with one thread.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from npugraph.user_script import run_as_main

SEED = 0
THREADS = torch.get_num_threads()  # for scripts


def run_script(
    script: str, arguments: list[str], log: Path, prepare: Callable[[], None], finish: Callable[[], None] | None = None
) -> int:
    """Runs ``script`` as Python would, between ``prepare()`` and ``finish()``, under a fixed seed. Its output goes to
    ``log``. Returns its exit code, or 128 plus the number of the signal that ended it."""
    torch.set_num_threads(1)
    flush()
    process = os.fork()
    if process == 0:
        os._exit(_in_child(script, arguments, log, prepare, finish or _nothing))
    _, status = os.waitpid(process, 0)
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _nothing() -> None:
    pass


def _in_child(
    script: str, arguments: list[str], log: Path, prepare: Callable[[], None], finish: Callable[[], None]
) -> int:
    code = 1
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        torch.set_num_threads(THREADS)
        prepare()
        torch.manual_seed(SEED)
        code = run_as_main(script, arguments)
        finish()
    except BaseException:
        traceback.print_exc()
    finally:
        flush()
    return code


def flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
