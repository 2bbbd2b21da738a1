# SPDX-License-Identifier: Apache-2.0
"""Loggers and their levels, tables of what passes did, and torch's logs of graphs and code."""

from __future__ import annotations

import logging
import os

import pytest
import torch

import npugraph
import npugraph_ex
import torchair
from npugraph.debug.pass_diff import table
from npugraph.log import EVENT, logger
from tests.python.backend.checks import compile_ex
from tests.python.forks import run_python


@pytest.fixture(autouse=True)
def level():
    before = logger.level
    yield
    logger.setLevel(before)


def set_level(level: int, caplog) -> None:
    logger.setLevel(level)
    caplog.handler.setLevel(0)


def cloned(x):
    return x.sin().clone().cos()


def compiled_once(fn=cloned, **options) -> None:
    with torch.no_grad():
        compile_ex(fn, options=options)(torch.ones(3))


def levels(caplog) -> set[str]:
    return {record.levelname for record in caplog.records if record.name == "npugraph"}


@pytest.mark.feature("9.03")
def test_there_is_one_logger() -> None:
    from npugraph_ex.core.utils import logger as of_core
    from torchair.core.utils import logger as of_torchair

    assert npugraph_ex.logger is torchair.logger is of_core is of_torchair is logger is logging.getLogger("npugraph")
    assert logging.getLevelName(35) == "EVENT"


@pytest.mark.feature("9.03")
def test_each_level_filters(caplog) -> None:
    said = (logging.DEBUG, logging.INFO, logging.WARNING, EVENT, logging.ERROR)
    for level in said:
        set_level(level, caplog)
        caplog.clear()
        for other in said:
            logger.event("event") if other == EVENT else logger.log(other, "other")
        assert [r.levelno for r in caplog.records if r.name == "npugraph"] == [o for o in said if o >= level]


@pytest.mark.feature("9.03")
def test_events_tell_how_long_phases_took(caplog) -> None:
    compiled_once()
    assert levels(caplog) == set()
    torch._dynamo.reset()
    set_level(EVENT, caplog)
    compiled_once()
    assert levels(caplog) == {"EVENT"}
    texts = [record.getMessage() for record in caplog.records if record.levelno == EVENT]
    assert {text.split(": ")[1].split(" took ")[0] for text in texts} >= {"record", "fx", "import", "passes", "plan"}
    assert all(text.endswith(" ms") for text in texts)


@pytest.mark.feature("9.02")
def test_what_passes_did_is_logged(caplog) -> None:
    set_level(logging.DEBUG, caplog)
    compiled_once(generate_code=False)
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert "cloned_0: remove_noop_ops\n  removed     1  aten.clone.default  clone" in texts
    (in_place,) = [text for text in texts if text.startswith("cloned_0: reinplace_intermediates\n")]
    assert "removed     1  aten.cos.default" in in_place
    assert "added       1  aten.cos_.default" in in_place


def test_a_level_of_all_loggers_asks_for_nothing(caplog) -> None:
    caplog.set_level(logging.DEBUG)
    compiled_once()
    assert not [record for record in caplog.records if record.name == "npugraph"]
    assert npugraph.artifacts()[0].stages[0] == "import"


@pytest.mark.feature("9.02")
def test_tables_of_differences() -> None:
    before = {"add": "aten.add.Tensor", "add_1": "aten.add.Tensor", "mul": "aten.mul.Tensor"}
    after = {"add": "aten.add_.Tensor", "mul": "aten.mul.Tensor", "sin": "aten.sin.default"}
    assert table(before, after).splitlines() == [
        "  removed     2  aten.add.Tensor   add, add_1",
        "  added       1  aten.add_.Tensor  add",
        "  added       1  aten.sin.default  sin",
    ]
    assert table(before, before) == ""


@pytest.fixture
def of_torch(capfd):
    """Returns a function that compiles once and returns the output of torch's own log handler."""

    def text(fn=cloned, **logs) -> str:
        torch._dynamo.reset()
        torch._logging.set_logs(**logs)
        try:
            compiled_once(fn)
        finally:
            torch._logging.set_logs()
        return capfd.readouterr().err

    return text


@pytest.mark.feature("9.01")
def test_torchs_logs_have_our_graphs(of_torch) -> None:
    assert "l_x_.sin()" in of_torch(graph_code=True)
    assert "torch.ops.aten.clone.default" in of_torch(aot_graphs=True)
    assert "torch.ops.aten.clone.default" in of_torch(aot=logging.DEBUG)
    text = of_torch(output_code=True)
    assert "# cloned_0, made by npugraph_ex." in text
    assert "def kernel(*inputs):" in text
    lines = npugraph.artifacts()[-1].program().splitlines()
    assert lines and all(line in text for line in lines)
    assert of_torch() == ""


@pytest.mark.feature("9.01")
def test_logged_code_without_files_has_no_values(of_torch) -> None:
    text = of_torch(lambda x: x * torch.tensor([1.0, 2.0, 3.0]), output_code=True)
    assert "torch.empty_strided((3,), (1,), dtype=torch.float32, device='cpu')" in text


COMPILES = "import torch; torch.compile(lambda x: x.sin() + 1, backend='npugraph_ex')(torch.ones(3))"


def outputs(program: str = "import npugraph", **variables: str) -> tuple[str, str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NPUGRAPH_", "TNG_"))} | variables
    done = run_python("-c", program, env=environment, check=True)
    return done.stdout, done.stderr


@pytest.mark.feature("9.03")
def test_levels_of_the_other_half() -> None:
    """Tests a message of level warning. tests/unit/core/base/log_test.cc tests the other levels."""
    odd = {"NPUGRAPH_LOGG": "1"}
    assert outputs(**odd)[0] == ""
    lines = outputs(COMPILES, TNG_LOG_LEVEL="2", **odd)[0].splitlines()
    assert lines[0].startswith("[WARNING] npugraph: unknown environment variables are ignored: NPUGRAPH_LOGG")
    assert any(line.startswith("[EVENT] npugraph: ") and " passes took " in line for line in lines)
    assert {line.split("]")[0] for line in lines} == {"[WARNING", "[EVENT"}
    assert outputs(TNG_LOG_LEVEL="3", **odd)[0] == ""
    assert "TNG_LOG_LEVEL=5 is ignored: allowed is an integer from 0 to 4" in outputs(TNG_LOG_LEVEL="5")[1]
