# SPDX-License-Identifier: Apache-2.0
"""Command lines of the demo and of the benchmarks."""

from __future__ import annotations

import pytest

from benchmarks import __main__ as benchmarks
from npugraph.demo import __main__ as demo


def test_the_words_of_a_question_need_no_quotes() -> None:
    parsed = demo.parse_arguments(["What", "is", "--tokens", "80", "a", "compiler?"])
    assert (parsed.question, parsed.tokens) == ("What is a compiler?", 80)
    assert demo.parse_arguments(["What is a compiler?"]).question == "What is a compiler?"
    assert demo.parse_arguments([]).question == demo.QUESTION


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["modle_speed"], "no benchmark 'modle_speed'; there are: replay_overhead, "),
        (["--resume"], "--resume needs --json FILE"),
        (["--sides", "eager,inducter"], "no side 'inducter'; there are: eager, dynamo, inductor, npugraph_ex, "),
    ],
)
def test_unknown_names_are_refused(arguments, complaint, capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        benchmarks.parse_arguments(arguments)
    assert caught.value.code == 2
    assert complaint in capsys.readouterr().err


def test_known_names() -> None:
    parsed = benchmarks.parse_arguments(["call_overhead", "--sides", "eager,npugraph_ex,zentorch"])
    assert (parsed.names, parsed.sides) == (["call_overhead"], ("eager", "npugraph_ex", "zentorch"))
    assert benchmarks.parse_arguments([]).names == []
