# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph env`` prints the facts that a bug report needs about the machine, on one page of text."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from npugraph import _C

_PACKAGE = Path(__file__).parent.parent
_PACKAGES = ("torch_npu", "numpy", "transformers", "diffusers", "peft", "torchao", "vllm", "vllm-ascend", "triton")
# Environment variables whose names begin with these change what a program does.
_VARIABLES = ("NPUGRAPH_", "TNG_", "TORCH", "PYTORCH_", "ASCEND_", "OMP_", "MKL_", "KMP_", "GOMP_", "LD_PRELOAD")
_OWN_GROUPS = Path("/proc/self/cgroup")  # lines "number:controllers:path"; those of version 2 name no controllers
_GROUPS = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60  # without a limit, version 1 gives a number near the size of the address space


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds nothing, because the command has no arguments."""


def run(arguments: argparse.Namespace) -> int:
    print(page())
    return 0


def page() -> str:
    rows = list(_rows())
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def _rows() -> Iterator[tuple[str, str]]:
    commit = _text(_PACKAGE / "_commit").strip()  # in wheels
    yield "npugraph", f"{_C.version}, {f'{commit[:10]}, ' if commit else ''}at {_PACKAGE}"
    yield "torch", f"{torch.__version__}, {torch.version.git_version[:10]}, at {Path(torch.__file__).parent}"
    yield "python", f"{platform.python_version()}, {sys.executable}"
    for name in _PACKAGES:
        version = _version(name)
        if version:
            yield name, version
    yield "backends", ", ".join(_backends())
    yield "system", f"{platform.platform()}, {' '.join(platform.libc_ver())}"
    yield "processor", f"{_field('/proc/cpuinfo', 'model name')}; code is generated for {_C.target_name()}"
    yield "cores", _cores()
    yield "threads", f"{torch.get_num_threads()} of torch, {torch.get_num_interop_threads()} between operators"
    yield "memory", _memory()
    yield "kept code", _cache()
    for name in sorted(os.environ):
        if name.startswith(_VARIABLES):
            yield name, os.environ[name].replace("\n", "\\n")


def _version(package: str) -> str:
    """Returns the version of a package, or an empty text if it is not installed."""
    try:
        found = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
    if package == "torch_npu" and any(need.startswith("npugraph") for need in found.requires or []):
        return f"{found.version}, npugraph's, which calls itself {torch.__version__.partition('+')[0]} as torch does"
    return found.version


def _backends() -> list[str]:
    found = importlib.metadata.entry_points(group="torch_dynamo_backends")
    return sorted(f"{entry.name} ({entry.dist.name if entry.dist else '?'})" for entry in found)


def _field(file: str, name: str) -> str:
    """Returns the text after the first "name:" in a file of the kernel."""
    lines = _text(Path(file)).splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _cores() -> str:
    quotas = []
    for group in _groups("cpu"):
        quota = [*_words(group / "cpu.max"), *_words(group / "cpu.cfs_quota_us"), *_words(group / "cpu.cfs_period_us")]
        if len(quota) == 2 and quota[0] not in ("max", "-1"):
            quotas.append(int(quota[0]) / int(quota[1]))
    may = f"a quota of {min(quotas):g}" if quotas else "no quota"
    return f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} are this process's, {may}"


def _memory() -> str:
    limits = []
    for group in _groups("memory"):
        limits += [*_words(group / "memory.max"), *_words(group / "memory.limit_in_bytes")]
    limit = min((int(one) for one in limits if one != "max"), default=_NO_LIMIT)
    most = f", a limit of {_gib(limit)}" if limit < _NO_LIMIT else ""
    total, free = (int(_field("/proc/meminfo", name).split()[0]) << 10 for name in ("MemTotal", "MemAvailable"))
    return f"{_gib(free)} available of {_gib(total)}{most}"


def _groups(controller: str) -> Iterator[Path]:
    """Yields the directories of the control groups that limit this process: its own group, and all groups around it."""
    for line in _text(_OWN_GROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        top = _GROUPS / controller if controllers else _GROUPS
        yield from (top / group.relative_to("/") for group in (Path(path), *Path(path).parents))


def _words(file: Path) -> list[str]:
    return _text(file).split()


def _text(file: Path) -> str:
    """Returns the text of a file, or an empty text if there is no such file."""
    try:
        return file.read_text()
    except OSError:
        return ""


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


def _cache() -> str:
    folder = _C.cache_directory()
    if not folder:
        return "none"
    files = [file for file in Path(folder).glob("**/*") if file.is_file()] if Path(folder).is_dir() else []
    return f"{folder}, {len(files)} files of {sum(file.stat().st_size for file in files) / 2**20:.1f} MiB"
