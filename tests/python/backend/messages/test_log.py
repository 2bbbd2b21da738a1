# SPDX-License-Identifier: Apache-2.0
"""Messages of the C++ half go to Python's logging if it has a handler for them, and otherwise to stderr."""

from __future__ import annotations

import os

from tests.python.forks import run_python

MESSAGE = "unknown environment variables are ignored: NPUGRAPH_LOGG; known are "


def stderr_of(program: str, **variables: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NPUGRAPH_")} | variables
    done = run_python("-c", program, env=environment, check=True)
    return done.stderr


def test_without_handlers_messages_go_to_stderr() -> None:
    assert stderr_of("import npugraph", NPUGRAPH_LOGG="1").startswith(f"npugraph: warning: {MESSAGE}")


def test_handlers_of_python_get_them() -> None:
    program = "import logging; logging.basicConfig(format='<%(name)s %(levelname)s> %(message)s'); import npugraph"
    assert stderr_of(program, NPUGRAPH_LOGG="1").startswith(f"<npugraph WARNING> {MESSAGE}")


def test_a_handler_that_fails_harms_nobody() -> None:
    program = (
        "import logging\n"
        "class Broken(logging.Filter):\n"
        "    def filter(self, record): raise KeyError(record.name)\n"
        "logging.getLogger('npugraph').addFilter(Broken())\n"
        "logging.basicConfig()\n"
        "import npugraph, torch\n"
        "compiled = torch.compile(lambda x: x + 1, backend='npugraph_ex')\n"
        "assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))"
    )
    assert "KeyError: 'npugraph'" in stderr_of(program, NPUGRAPH_LOGG="1")


def test_the_level_comes_first() -> None:
    program = "import logging; logging.basicConfig(); import npugraph"
    assert stderr_of(program, NPUGRAPH_LOGG="1", NPUGRAPH_LOG="error") == ""
