# SPDX-License-Identifier: Apache-2.0
"""The console of the logger: what it prints on stdout, and in which form."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator

import pytest
import torch

import npugraph
import torchair
from tests.python.forks import run_python
from torchair.core.utils import EVENT_LEVEL, logger

pytestmark = pytest.mark.feature("9.03")

COMPILES = """
import torch, torchair
with torch.no_grad():
    torch.compile(lambda x: x + 1, backend=torchair.get_npu_backend())(torch.ones(3))
"""


@pytest.fixture(autouse=True)
def level() -> Iterator[None]:
    before = logger.level
    yield
    logger.setLevel(before)


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The levels of the lines on stdout."""
    return re.findall(r"^\[(\w+)\]", capsys.readouterr().out, re.MULTILINE)


def log_all() -> None:
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
        logger.log(level, "text of %s", level)
    logger.event("text of an event")


def outputs(program: str, **variables: str) -> tuple[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NPUGRAPH_", "TNG_"))}
    done = run_python("-c", program, env=environment | variables, check=True)
    return done.stdout, done.stderr


def test_a_record_has_the_form_of_ascends_tools(capsys: pytest.CaptureFixture[str]) -> None:
    logger.setLevel(logging.INFO)
    logger.info("start compile graph: %s.", "graph_1")
    line = (
        rf"\[INFO\] TORCHAIR\({os.getpid()},{re.escape(os.path.basename(sys.executable))}\):"
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\.\d{3} \[test_logs_console\.py:\d+\]\d+ "
        r"start compile graph: graph_1\.\n"
    )
    captured = capsys.readouterr()
    assert re.fullmatch(line, captured.out) and captured.err == ""


def test_an_event_is_of_the_line_that_logs_it(capsys: pytest.CaptureFixture[str]) -> None:
    logger.setLevel(EVENT_LEVEL)
    logger.event("took %d ms", 3)
    assert re.search(r"^\[EVENT\] .* \[test_logs_console\.py:\d+\]\d+ took 3 ms\n", capsys.readouterr().out)


def test_errors_are_printed_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    log_all()
    assert printed(capsys) == ["ERROR"]


def test_the_level_of_the_logger_counts(capsys: pytest.CaptureFixture[str]) -> None:
    expected = {
        logging.DEBUG: ["DEBUG", "INFO", "WARNING", "ERROR", "EVENT"],
        logging.WARNING: ["WARNING", "ERROR", "EVENT"],
        EVENT_LEVEL: ["ERROR", "EVENT"],
        logging.CRITICAL: [],
    }
    for level, names in expected.items():
        torchair.logger.setLevel(level)
        log_all()
        assert printed(capsys) == names


def test_logging_can_be_turned_off(capsys: pytest.CaptureFixture[str]) -> None:
    logging.disable()
    try:
        log_all()
    finally:
        logging.disable(logging.NOTSET)
    assert printed(capsys) == []


def test_a_record_is_written_once() -> None:
    """Without handlers, warnings that the console does not print go to stderr, as those of any logger do."""
    program = (
        "from torchair import logger; logger.warning('first'); logger.error('second'); {}; logger.warning('third')"
    )
    stdout, stderr = outputs(program.format("logger.setLevel('INFO')"))
    assert [line.rpartition(" ")[2] for line in stdout.splitlines()] == ["second", "third"]
    assert stderr == "first\n"
    stdout, stderr = outputs("import logging; logging.basicConfig(level='DEBUG'); " + program.format("pass"))
    assert [line.rpartition(" ")[2] for line in stdout.splitlines()] == ["second"]
    assert [line.rpartition(":")[2] for line in stderr.splitlines()] == ["first", "second", "third"]


def test_the_environment_has_a_level_for_programs_that_set_none() -> None:
    def texts(**variables: str) -> list[str]:
        return re.findall(r"^\[INFO\] TORCHAIR.*?\]\d+ (\w+ \w+)", outputs(COMPILES, **variables)[0], re.MULTILINE)

    assert texts(TNG_LOG_LEVEL="1") == [
        "Initializing GE",
        "start compile",
        "Compiling concrete",
        "Compile Graph",
        "Static FX",
        "end compile",
    ]
    assert texts(TNG_LOG_LEVEL="2") == texts() == []


def test_the_environment_asks_for_events_too() -> None:
    """The C++ half prints those of phases."""
    for level, has_infos in (("1", True), ("4", False)):
        lines = outputs(COMPILES, TNG_LOG_LEVEL=level)[0]
        assert len(RUN.findall(lines)) == 1
        assert len(re.findall(r"^\[EVENT\].* graph_1: build took ", lines, re.MULTILINE)) == 1
        assert ("[INFO] TORCHAIR" in lines) == has_infos
    assert "[EVENT]" not in outputs(COMPILES, TNG_LOG_LEVEL="5")[0]


RUN = re.compile(
    r"^\[EVENT\] .*torchair run at (\d+), process input: 0us, compile (\d+)us, graph run: \d+us$", re.MULTILINE
)


@pytest.mark.parametrize("grad", [False, True])
def test_calls_of_graphs_are_events(grad: bool, capsys: pytest.CaptureFixture[str]) -> None:
    npugraph.reset()
    logger.setLevel(EVENT_LEVEL)
    fast = torch.compile(lambda x: x + 1, backend=torchair.get_npu_backend())
    x = torch.ones(3, requires_grad=grad)
    with torch.set_grad_enabled(grad):
        for _ in range(3):
            assert fast(x).tolist() == [2.0] * 3
    runs = RUN.findall(capsys.readouterr().out)
    times, compiles = zip(*((int(at), int(compiled)) for at, compiled in runs), strict=True)
    assert len(times) == 3 and list(times) == sorted(times)
    assert compiles[0] > 0 and compiles[1:] == (0, 0)


def test_the_first_time_is_that_of_the_call(caplog: pytest.LogCaptureFixture) -> None:
    """And not one after the compile."""
    npugraph.reset()
    logger.setLevel(EVENT_LEVEL)
    with torch.no_grad():
        torch.compile(lambda x: x + 1, backend=torchair.get_npu_backend())(torch.ones(3))
    phase, *_, run = caplog.records
    assert " took " in phase.msg and run.msg.startswith("torchair run at") and isinstance(run.args, tuple)
    assert run.args[0] <= phase.created * 1e6


@pytest.mark.parametrize("is_cut", [False, True])
def test_the_level_of_each_call_counts(is_cut: bool, capsys: pytest.CaptureFixture[str]) -> None:
    npugraph.reset()
    fast = torch.compile(lambda x: (torch.sort(x)[0] if is_cut else x) + 1, backend=torchair.get_npu_backend())
    for level, events in ((logging.ERROR, 0), (EVENT_LEVEL, 1), (logging.ERROR, 0), (logging.INFO, 1)):
        logger.setLevel(level)
        with torch.no_grad():
            fast(torch.ones(3))
        runs = RUN.findall(capsys.readouterr().out)
        assert [compiled for _, compiled in runs] == ["0"] * events


@pytest.mark.usefixtures("order_is_missing")
def test_each_graph_between_eager_operators_is_an_event(capsys: pytest.CaptureFixture[str]) -> None:
    npugraph.reset()
    logger.setLevel(EVENT_LEVEL)
    with torch.no_grad():
        torch.compile(lambda x: torch.sort(x + 1)[0] * 2, backend=torchair.get_npu_backend())(torch.ones(3))
    assert len(RUN.findall(capsys.readouterr().out)) == 2


def test_debug_records_say_how_a_graph_is_converted_compiled_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    logger.setLevel(logging.DEBUG)
    with torch.no_grad():
        compiled = torch.compile(
            lambda x, y: torch.cat([x, y]).relu(), backend=torchair.get_npu_backend(), dynamic=True
        )
        compiled(torch.ones(3), torch.ones(4))
    texts = re.findall(r"^\[\w+\] TORCHAIR\S+ \S+ \[\S+\]\d+ (.*)$", capsys.readouterr().out, re.MULTILINE)
    value = r"Pack\(meta:FakeTensor\(.*\) npu:Tensor\(.*\)\)"
    expected = [
        r"compiler inputs: \[s\d+, FakeTensor\(.*\)\]",
        r"before sym input optimization: \[s\d+, l_x_, s\d+, l_y_\]",
        r"after sym input optimization: \[l_x_, l_y_\]",
        r"target: aten\.cat\.default",
        rf"input 0: \[{value}, {value}\]",
        rf"output {value}",
        r"target: aten\.relu\.default",
        rf"input 0: {value}",
        rf"output {value}",
        r"global compile options: \{.*\}",
        r"local compile options: \{.*\}",
        r"Get graph graph_\d+ input placements \[0, 0\]",
        r"Load graph set_hint_shape input shape: \[\[-1\], \[-1\]\], output shape: \[\]",
        r"start compile graph: graph_\d+\.",
        r"Dynamic FX graph compiled to dynamic Ascend GE graph",
        r"Stream Allocation Summary: tasks of graph graph_\d+: 1 on stream 0",
        r"Try to alloc and update feature map memory of graph graph_\d+: \d+ bytes",
        r"end compile graph: graph_\d+ and start run graph\.",
        r"Dynamic executor call ge run graph at \d+",
        r"torchair run at \d+, process input: 0us, .*",
    ]
    remaining = iter(texts)
    assert [wanted for wanted in expected if not any(re.fullmatch(wanted, text) for text in remaining)] == []
