# SPDX-License-Identifier: Apache-2.0
"""Every error of a compile or of a run ends with a line in Ascend's format."""

from __future__ import annotations

import os
import re
import sys
import traceback

import pytest
import torch

from tests.python.backend.checks import compile_ex
from tests.python.forks import run_python

X = torch.ones(4)


def refuse(gm, example_inputs, config) -> None:
    raise KeyError("mine")


@torch.library.custom_op("error_notes::refuse", mutates_args=())
def refusing(x: torch.Tensor, kind: int) -> torch.Tensor:
    if kind > 0:
        raise [ValueError, TypeError, NotImplementedError, MemoryError][kind - 1]("not this one")
    return x.clone()


refusing.register_fake(lambda x, kind: torch.empty_like(x))


def line_below(error: BaseException) -> str:
    """Returns the last line that Python prints of an error."""
    return "".join(traceback.format_exception(error)).splitlines()[-1]


def form(code: str, text: str) -> str:
    return (
        rf"\[ERROR\] \d{{4}}(-\d\d){{3}}(:\d\d){{2}} \(PID:{os.getpid()}, Device:-1, RankID:-1\) ERR{code} GRAPH {text}"
    )


@pytest.mark.feature("11.05")
@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({"nope": 1}, "03003", "invalid value"),
        ({"name": 1}, "03002", "invalid type"),
        ({"data_dump_dir": "/nowhere"}, "03008", "resource not found"),
        ({"post_grad_custom_pre_pass": refuse}, "03005", "internal error"),
    ],
)
def test_errors_of_compiles(options, code, text) -> None:
    with pytest.raises(Exception) as caught, torch.no_grad():
        compile_ex(lambda x: x + 1, options=options)(X)
    assert re.fullmatch(form(code, text), line_below(caught.value))
    assert "[ERROR]" not in str(caught.value)


@pytest.mark.feature("11.05")
@pytest.mark.parametrize(
    ("kind", "error", "code", "text"),
    [
        (1, ValueError, "03003", "invalid value in fn_0"),
        (2, TypeError, "03002", "invalid type in fn_0"),
        (3, NotImplementedError, "03007", "feature not supported in fn_0"),
        (4, MemoryError, "03006", "memory error in fn_0"),
    ],
)
def test_errors_of_runs(kind, error, code, text) -> None:
    def fn(x):
        return refusing(x, kind) + 1

    torch._dynamo.reset()
    compiled = compile_ex(fn)
    for _ in range(2):  # first in the capture, then in a replay
        with pytest.raises(error) as caught, torch.no_grad():
            compiled(X)
        assert str(caught.value) == "not this one"
        lines = "".join(traceback.format_exception(caught.value)).splitlines()
        assert re.fullmatch(form(code, text), lines[-1])
        assert re.fullmatch(r"in error_notes\.refuse \(\S*test_error_notes\.py:\d+ in fn\)", lines[-2])
        assert lines[-3].endswith("not this one")
        assert any("test_error_notes.py" in line and "in refusing" in line for line in lines)
        assert sum("[ERROR]" in line for line in lines) == 1


def test_errors_of_the_backend_npugraph_name_the_place_alone() -> None:
    def fn(x):
        return refusing(x, 1) + 1

    with pytest.raises(ValueError) as caught, torch.no_grad():
        torch.compile(fn, backend="npugraph")(X)
    assert "[ERROR]" not in "".join(traceback.format_exception(caught.value))
    assert re.fullmatch(r"in error_notes\.refuse \(\S*test_error_notes\.py:\d+ in fn\)", line_below(caught.value))
    with pytest.raises(ValueError, match="of backend 'npugraph'; the options are") as caught, torch.no_grad():
        torch.compile(fn, backend="npugraph", options={"nope": 1})(X)
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("returned", [True, False])
def test_memory_that_the_host_lacks_is_named_with_task_and_line(returned) -> None:
    def fn(x):
        product = x[:, None] * x
        return product if returned else product.cumsum(0).sum()

    with pytest.raises(RuntimeError, match="can't allocate memory: you tried to allocate") as caught, torch.no_grad():
        compile_ex(fn)(torch.ones(1 << 18))
    place, line = caught.value.__notes__
    assert re.fullmatch(r"in \S+ \(\S*test_error_notes\.py:\d+ in fn\)", place)
    assert re.fullmatch(form("03006", r"memory error in fn_0"), line)


def test_an_interrupt_has_no_note() -> None:
    class Stop(BaseException):
        pass

    @torch.library.custom_op("error_notes::stop", mutates_args=())
    def stop(x: torch.Tensor) -> torch.Tensor:
        raise Stop

    stop.register_fake(lambda x: torch.empty_like(x))
    with pytest.raises(Stop) as caught, torch.no_grad():
        compile_ex(lambda x: stop(x) + 1)(X)
    assert not hasattr(caught.value, "__notes__")


PROGRAM = """
import torch

run = torch.compile(lambda x, i: x[i] + 1, backend="npugraph_ex")
with torch.no_grad():
    run(torch.ones(4), torch.tensor([0, 1]))
    run(torch.ones(4), torch.tensor([0, 9]))
"""


@pytest.mark.feature("11.05")
def test_what_a_program_prints() -> None:
    done = run_python("-c", PROGRAM)
    assert done.returncode == 1
    if sys.version_info < (3, 11):  # which prints no notes
        assert done.stderr.splitlines()[-1].startswith("IndexError: ")
        return
    before, place, line = done.stderr.splitlines()[-3:]
    assert before.startswith("IndexError: ")
    assert place == "in loop.index.add (index, add)"  # code that was given with -c has no file to name
    assert re.fullmatch(
        r"\[ERROR\] [-\d:]+ \(PID:\d+, Device:-1, RankID:-1\) ERR03001 GRAPH invalid parameter in \S+_0", line
    )
