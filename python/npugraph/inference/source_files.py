# SPDX-License-Identifier: Apache-2.0
"""Digests of the files that a graph was traced from, by which an edit of a file is noticed."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
import sys
import sysconfig
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import torch

from npugraph.python_versions import qualified_name

# Files in these folders belong to the versions that a cache file names.
_VERSIONED = (os.path.realpath(Path(torch.__file__).parent), os.path.realpath(Path(__file__).parent.parent))
_STANDARD = os.path.realpath(sysconfig.get_paths()["stdlib"])
# File names of methods that Python generates for data classes and named tuples from the text of their files.
_GENERATED = re.compile(r"<string>|<attrs generated .*>")


class NoSource(ValueError):
    """The code is in no file, or in a file that was written after this process began."""


def _process_start() -> float:
    """Returns when this process began, in seconds since the epoch."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # starttime, proc(5)
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot


_STARTED = _process_start()
_CLOCK_TICK = 0.02  # in seconds; the start is known to a hundredth of a second, and importing begins later than that


def digests(traced: Iterable[CodeType]) -> dict[str, str]:
    """Returns the SHA-256 of each file that the code is from, except files that come with torch, npugraph or Python.
    Raises ``NoSource`` if this process may run other code than the file holds."""
    files = sorted({code.co_filename for code in traced if not _is_generated(code)})
    return {file: _digest(file) for file in files if not _is_versioned(file)}


Place = list[Any]  # file, qualified name and first line of a function


def places(traced: Iterable[CodeType]) -> list[Place]:
    """Returns the places of the functions that another process can find by name. It then notices if another function
    has taken the place of one."""
    found = {(code.co_filename, qualified_name(code), code.co_firstlineno) for code in traced}
    modules = _modules_by_file()
    return [list(place) for place in sorted(found) if not _is_versioned(place[0]) and _is_there(list(place), modules)]


def are_there(known: Iterable[Place]) -> bool:
    modules = _modules_by_file()
    return all(_is_there(place, modules) for place in known)


def _modules_by_file() -> dict[str, ModuleType]:
    return {file: module for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}


def _is_there(place: Place, modules: Mapping[str, ModuleType]) -> bool:
    file, name, line = place
    found: Any = modules.get(file)
    for part in name.split("."):
        found = inspect.getattr_static(found, part, None)
    for _ in range(8):  # looks inside of decorators
        code = getattr(found, "__code__", None)
        if code is not None and (code.co_filename, code.co_firstlineno) == (file, line):
            return True
        found = getattr(found, "__func__", None) or getattr(found, "fget", None) or getattr(found, "__wrapped__", None)
    return False


def are_unchanged(known: Mapping[str, str]) -> bool:
    try:
        return all(_digest(file) == digest for file, digest in known.items())
    except NoSource:
        return False


def _is_generated(code: CodeType) -> bool:
    of_class = code.co_name.startswith("__") or code.co_varnames[:1] == ("_cls",)
    return of_class and _GENERATED.fullmatch(code.co_filename) is not None


@functools.lru_cache(maxsize=4096)
def _is_versioned(file: str) -> bool:
    if file.startswith("<frozen "):  # a module that is built into Python
        return True
    path = os.path.realpath(file)
    with_python = path.startswith(f"{_STANDARD}{os.sep}") and "site-packages" not in path
    return with_python or any(path.startswith(f"{folder}{os.sep}") for folder in _VERSIONED)


def _digest(file: str) -> str:
    try:
        stat = os.stat(file)
    except OSError:
        raise NoSource(f"the source {file} is no file") from None
    if stat.st_mtime > _STARTED + _CLOCK_TICK:
        raise NoSource(f"{file} was written after this process began, which may run another version of it")
    return _digest_of(file, stat.st_mtime_ns, stat.st_size)


@functools.lru_cache(maxsize=1024)
def _digest_of(file: str, changed: int, size: int) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()
