# SPDX-License-Identifier: Apache-2.0
"""Static kernels, which are code for the sizes of one capture: which sizes get them, that processes share them, and
that the task runs without them if they cannot be made."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

import pytest
import torch

import npugraph
from tests.python.backend.checks import compile_ex
from tests.python.backend.forked import AT_ONCE
from tests.python.forks import run_python


def step(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.tanh() * 1.25 + x, -1)


def counts(artifact: npugraph.Artifact) -> list[int]:
    counters = artifact.counters
    names = ("static_kernels", "static_kernel_builds", "static_kernel_loads", "static_kernel_failures")
    return [counters.get(name, -1) for name in names]


def run(rows: list[int], fn=step, **options) -> npugraph.Artifact:
    """Compiles ``fn`` with symbolic sizes, checks a call for each number of rows, and returns the only artifact."""
    compiled = compile_ex(fn, dynamic=True, options=options)
    with torch.no_grad():
        for row in rows:
            x = torch.randn(row, 24)
            torch.testing.assert_close(compiled(x), fn(x))
    (artifact,) = npugraph.artifacts()
    return artifact


@pytest.mark.feature("1.16", "3.14")
def test_each_capture_has_kernels_for_its_sizes():
    artifact = run([5, 6, 5, 6], static_kernel_compile=True)
    kernels, builds, loads, failures = counts(artifact)
    assert kernels == 2 * len(artifact.tasks) and builds + loads <= kernels and failures == 0
    page = artifact.explain()
    assert "Static kernels\n  s" in page and "=5, " in page and "=6, " in page and "code of its own" in page
    npugraph.reset()
    plain = run([5, 6])
    assert counts(plain) == [-1] * 4 and "Static kernels" not in plain.explain()


@pytest.mark.feature("1.16")
def test_one_build_for_each_kernel_and_sizes():
    def several(x):
        return step(step(x).relu().sort(-1)[0]), step(x * 3)

    apart = {"static_kernel_compile": True, "horizontal_fusion": False}
    first = run([31, 33, 31], several, disable_static_kernel_compile_cache=True, **apart)
    kernels, builds, loads, _ = counts(first)
    assert kernels >= builds > 0 and loads == 0
    npugraph.reset()
    second = run([31, 33], several, disable_static_kernel_compile_cache=True, **apart)
    assert counts(second)[1] == builds


@pytest.mark.feature("1.17")
def test_only_the_named_sizes_get_kernels():
    names = {"_vllm_aclnn_static_kernel_sym_index": 0, "_vllm_aclnn_static_kernel_sym_range": [8, 16]}
    artifact = run([7, 8, 9, 16], static_kernel_compile=True, **names)
    assert counts(artifact)[0] == 2 * len(artifact.tasks)
    lines = artifact.explain().split("Static kernels\n")[1].splitlines()[:4]
    named = ["not among the values that the options name" in line for line in lines]
    assert named == [True, False, True, False]
    npugraph.reset()
    names["_vllm_aclnn_static_kernel_sym_index"] = 7  # there is no such symbol
    assert counts(run([8], static_kernel_compile=True, **names))[0] == 0


# Two processes at once, then another one. In memory they share only torch, which is imported before they fork.
PROGRAM = (
    AT_ONCE
    + """
import json

def step(x):
    return torch.softmax(x.tanh() * 1.25 + x, -1)

def run():
    import npugraph

    compiled = torch.compile(step, backend="npugraph_ex", dynamic=True, options={"static_kernel_compile": True})
    torch.manual_seed(0)
    with torch.no_grad():
        results = [compiled(torch.randn(rows, 24)).tolist() for rows in (5, 6)]
    (artifact,) = npugraph.artifacts()
    return {"results": results, "artifact": artifact.counters}

if __name__ == "__main__":
    print(json.dumps([at_once(2), *at_once(1)]))
"""
)


@pytest.mark.feature("1.16", "3.14", "11.22")
def test_processes_share_what_one_of_them_builds(tmp_path: Path):
    """Each kernel is built once, although neither LOCAL_WORLD_SIZE nor anything else tells a process of the others.
    tests/unit/core/codegen/jit/make_code_test.cc has eight threads at once."""
    done = run_python(
        "-c",
        PROGRAM,
        env={name: value for name, value in os.environ.items() if name != "LOCAL_WORLD_SIZE"}
        | {"NPUGRAPH_CACHE": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "npugraph" not in done.stderr
    at_once, later = json.loads(done.stdout)
    assert sum(made["artifact"]["static_kernel_builds"] for made in at_once) == 2
    assert sum(made["artifact"]["static_kernel_loads"] for made in at_once) == 2
    assert at_once[0]["results"] == at_once[1]["results"] == later["results"]
    assert later["artifact"]["static_kernel_builds"] == 0
    assert later["artifact"]["static_kernel_loads"] == 2


# Forbids the process to make more memory executable, as some systems do. A filter of system calls (seccomp(2)) refuses
# mprotect with PROT_EXEC in all threads.
FORBIDDEN = """
import ctypes, struct

def forbid_new_code():
    load_number, load_protection = (0x20, 0, 0, 0), (0x20, 0, 0, 32)
    is_mprotect, is_executable = (0x15, 0, 3, 10), (0x45, 0, 1, 4)
    refuse, allow = (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)
    rules = (load_number, is_mprotect, load_protection, is_executable, refuse, allow)
    text = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *rule) for rule in rules))

    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("rules", ctypes.c_void_p)]

    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges
    filter = Filter(len(rules), ctypes.addressof(text))
    assert libc.syscall(317, 1, 1, ctypes.byref(filter)) == 0

"""
WITH_FILTER = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the filter has numbers of system calls of x86-64"
)


ONE_PROCESS = """
import json, torch, npugraph

def step(x):
    return torch.softmax(x.tanh() * 1.25 + x, -1)

options = {"static_kernel_compile": True, "max_instances": 1}
compiled = torch.compile(step, backend="npugraph_ex", dynamic=True, options=options)
with torch.no_grad():
    for rows in (5, 6, 6):
        if rows == 6:
            forbid_new_code()
        x = torch.randn(rows, 24)
        torch.testing.assert_close(compiled(x), step(x))
(artifact,) = npugraph.artifacts()
print(json.dumps(artifact.counters))
"""


@WITH_FILTER
@pytest.mark.feature("11.22")
def test_a_kernel_that_cannot_be_made_is_told_once_and_the_task_keeps_the_general_one(tmp_path: Path):
    done = run_python(
        "-c",
        FORBIDDEN + ONE_PROCESS,
        env=os.environ | {"NPUGRAPH_CACHE": str(tmp_path / "cache"), "NPUGRAPH_REPORT_DIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    made, stderr = json.loads(done.stdout), done.stderr
    assert made["static_kernels"] == made["static_kernel_failures"] == 1
    warned = [line for line in stderr.splitlines() if "could not be made" in line]
    assert len(warned) == 1
    assert "so the task keeps its code for all sizes: generated code cannot be loaded" in warned[0]
    (report,) = tmp_path.glob("npugraph-static-kernel-*.txt")
    assert str(report) in stderr
    assert "could not be made" in report.read_text()


WITHOUT_CODE = """
import torch, npugraph

def step(x):
    return torch.softmax(x.tanh() * 1.25 + x, -1)

forbid_new_code()
x = torch.randn(200, 300)
for _ in range(2):
    torch._dynamo.reset()
    compiled = torch.compile(step, backend="npugraph_ex")
    torch.testing.assert_close(compiled(x), step(x))
artifact = npugraph.artifacts()[-1]
print([task.kind for task in artifact.tasks])
"""


@WITH_FILTER
@pytest.mark.feature("11.22")
def test_where_no_memory_may_be_executable_graphs_are_captured_without_generated_code(tmp_path: Path):
    done = run_python("-c", FORBIDDEN + WITHOUT_CODE, env=os.environ | {"NPUGRAPH_CACHE": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert "loop" not in done.stdout and "aten" in done.stdout
    assert done.stderr.count("this system forbids making memory executable: no code is generated") == 1
    assert "DefectWarning" not in done.stderr
