# SPDX-License-Identifier: Apache-2.0
"""Command lines of the demo, of the benchmarks and of the tools."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import npugraph
from benchmarks import __main__ as benchmarks
from npugraph import __main__ as tools
from npugraph.commands import env
from npugraph.deadlock.command import align_trace, deadlock_check, filter_operators
from npugraph.demo import __main__ as demo
from npugraph.demo import packages

ROOT = Path(__file__).resolve().parents[3]


def test_the_words_of_a_question_need_no_quotes() -> None:
    parsed = demo.parse_arguments(["What", "is", "--tokens", "80", "a", "compiler?"])
    assert (parsed.question, parsed.tokens) == ("What is a compiler?", 80)
    assert demo.parse_arguments(["What is a compiler?"]).question == "What is a compiler?"
    assert demo.parse_arguments([]).question == demo.QUESTION


@pytest.mark.parametrize(
    ("line", "question", "tokens"),
    [
        ("What's up?", "What's up?", 200),
        ("What's Bob's plan? --tokens 80", "What's Bob's plan?", 80),
        ('"What is a compiler?" --tokens 7', "What is a compiler?", 7),
        ("--tokens 7 'What is it?'", "What is it?", 7),
        ("it costs $5 * 2", "it costs $5 * 2", 200),
        ("", demo.QUESTION, 200),
    ],
)
def test_a_question_of_make_needs_no_care_for_apostrophes(line, question, tokens) -> None:
    make = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "demo", f"ARGS={line}"], cwd=ROOT, capture_output=True, text=True
    )
    assert make.stdout.splitlines()[-1] == '.venv/bin/python -m npugraph.demo --line "$DEMO_LINE"', make.stderr
    parsed = demo.parse_arguments(["--no-eager", "--line", line])
    assert (parsed.question, parsed.tokens, parsed.no_eager) == (question, tokens, True)


def test_make_gives_the_demo_its_line_as_it_was_written() -> None:
    makefile = (ROOT / "Makefile").read_text().replace("-m npugraph.demo --line", "-c 'import sys; print(sys.argv[1])'")
    makefile = re.sub(r"(?m)^\t@scripts/.*", "\t@true", makefile)  # builds nothing
    given = 'What\'s "up" with $5 * 2?'
    make = subprocess.run(
        ["make", "--no-print-directory", "-f", "-", "demo", f"PYTHON={sys.executable}", f"ARGS={given}"],
        input=makefile,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert make.stdout.splitlines() == [given]


def test_what_the_demo_cannot_run_is_refused_before_weights_are_loaded(monkeypatch, capsys) -> None:
    monkeypatch.setattr(demo, "Chat", lambda *_: pytest.fail("the model was loaded"))
    assert demo.main(["--backend", "foo"]) == demo.USAGE
    assert re.search("there is no backend 'foo' of torch.compile; there are: .*npugraph_ex", capsys.readouterr().err)
    monkeypatch.setattr(packages, "NEEDED", {"no_such_module": "no-such-package"})
    monkeypatch.setattr(packages.require, "__defaults__", (packages.NEEDED,))
    assert demo.main([]) == demo.MISSING
    assert "pip install no-such-package" in capsys.readouterr().err
    for wrong in (["--penalty", "0"], ["--tokens", "0"], ["--nonsense"]):
        with pytest.raises(SystemExit) as caught:
            demo.main(wrong)
        assert caught.value.code == demo.USAGE
    assert len({0, 1, demo.USAGE, demo.DIFFERENT, demo.MISSING, demo.INTERRUPTED}) == 6


@pytest.mark.parametrize(
    "main", [demo.main, tools.main, benchmarks.parse_arguments, align_trace, filter_operators, deadlock_check]
)
def test_tools_of_python_tell_their_version(main, capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert (caught.value.code, capsys.readouterr().out) == (0, f"npugraph {npugraph.__version__}\n")


@pytest.mark.parametrize("command", tools.COMMANDS)
def test_commands_of_the_package_tell_their_version(command, capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        tools.main([command, "--version"])
    assert (caught.value.code, capsys.readouterr().out) == (0, f"npugraph {npugraph.__version__}\n")


@pytest.mark.parametrize("tool", ["npugraph-opt", "npugraph-run"])
def test_tools_of_the_core_tell_their_version(tool) -> None:
    done = subprocess.run([ROOT / "build/release/bin" / tool, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"{tool} {npugraph.__version__}\n")


def test_the_page_about_the_machine(monkeypatch, capsys) -> None:
    for name in os.environ:
        if name.startswith(env._VARIABLES):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TORCH_LOGS", "of two\nlines")
    monkeypatch.setenv("NPUGRAPH_LOG", "info")
    monkeypatch.setenv("SOME_PASSWORD", "secret")
    assert tools.main(["env"]) == 0
    page = capsys.readouterr().out
    rows = dict(re.split(" {2,}", line, maxsplit=1) for line in page.splitlines())
    assert rows["npugraph"].startswith(npugraph.__version__)
    assert rows["torch"].startswith(torch.__version__)
    assert "npugraph (npugraph)" in rows["backends"] and "npugraph_ex (npugraph)" in rows["backends"]
    assert rows["NPUGRAPH_LOG"] == "info"
    assert rows["TORCH_LOGS"] == "of two\\nlines"
    assert {"python", "system", "processor", "cores", "threads", "memory", "kept code"} <= set(rows)
    assert "secret" not in page
    assert len(page.splitlines()) < 60


@pytest.mark.parametrize("version", [1, 2])
def test_limits_of_the_control_group_are_on_the_page(version, monkeypatch, tmp_path) -> None:
    """The page shows the lowest limit of the group and of the groups around it, if any of them has one."""
    own = tmp_path / "own_groups"
    monkeypatch.setattr(env, "_OWN_GROUPS", own)
    monkeypatch.setattr(env, "_GROUPS", tmp_path)
    assert "no quota" in env.page()
    own.write_text({1: "4:cpu,cpuacct:/a/b\n3:memory:/a/b\n", 2: "0::/a/b\n"}[version])

    def limit(group: str, quota: str, memory: str) -> None:
        files = {
            1: {"cpu/{}/cpu.cfs_quota_us": quota, "cpu/{}/cpu.cfs_period_us": "100000",
                "memory/{}/memory.limit_in_bytes": memory},
            2: {"{}/cpu.max": f"{quota} 100000", "{}/memory.max": memory},
        }[version]  # fmt: skip
        for name, text in files.items():
            file = tmp_path / name.format(group)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")

    limit("a/b", *{1: ("-1", str((1 << 63) - 4096)), 2: ("max", "max")}[version])
    page = env.page()
    assert "no quota" in page and "a limit of" not in page
    limit("a", "150000", str(3 << 30))
    page = env.page()
    assert "a quota of 1.5" in page and "a limit of 3.0 GiB" in page


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
