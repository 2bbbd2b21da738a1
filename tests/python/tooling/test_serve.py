# SPDX-License-Identifier: Apache-2.0
"""What ``python -m npugraph serve`` makes of its options, and of an environment that cannot serve. The tests in
tests/serving start servers with it."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
from pathlib import Path

import pytest

from npugraph import __main__ as tools
from npugraph.commands import serve

ROOT = Path(__file__).resolve().parents[3]
COMPLETE = {"vllm": "0.30.0", "vllm-ascend": "0.30.0rc2", "npugraph-vllm": "0.1.0", "torch_npu": "0.1.0"}
OURS = ["--gpu-memory-utilization", "0.5", "--max-num-seqs", "64"]
GRAPHS = "--additional-config.npugraph_ex_config.enable=true"


def test_the_pairs_are_those_of_the_script() -> None:
    script = (ROOT / "scripts/setup_vllm").read_text()
    assert dict(re.findall(r"vllm=(\S+) ascend=(\S+)", script)) == serve.PAIRS


def test_help_needs_no_vllm(capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        tools.main(["serve", "--help"])
    assert caught.value.code == 0
    page = capsys.readouterr().out
    assert all(text in page for text in (" ".join(OURS[:2]), " ".join(OURS[2:]), "docs/serving.md"))


@pytest.mark.parametrize(
    ("versions", "says"),
    [
        ({}, "vllm, vllm-ascend, npugraph-vllm, torch_npu are not installed"),
        ({"npugraph-vllm": None}, "npugraph-vllm is not installed"),
        ({"vllm-ascend": "0.14.0rc1"}, "vllm 0.30.0 with vllm-ascend 0.14.0rc1 is not tested"),
        ({"vllm": "0.31.0"}, "vllm 0.31.0 with vllm-ascend 0.30.0rc2 is not tested"),
    ],
)
def test_an_environment_that_cannot_serve(monkeypatch, capsys, versions, says) -> None:
    changed = COMPLETE | versions if versions else {}
    monkeypatch.setattr(serve, "_versions", lambda: {name: value for name, value in changed.items() if value})
    assert tools.main(["serve", "folder"]) == 2
    message = capsys.readouterr().err
    assert says in message
    assert "scripts/setup_vllm 0.30" in message


def test_vllm_takes_the_place_of_the_process(monkeypatch, capsys) -> None:
    started = []
    monkeypatch.setattr(serve, "_versions", lambda: COMPLETE)
    monkeypatch.setattr(os, "execv", lambda *command: started.append(command))
    monkeypatch.setattr(os, "environ", {})
    tools.main(["serve", "a folder", "--uds", "path", "--help=all"])
    given = ["serve", "a folder", GRAPHS, *OURS, "--uds", "path", "--help=all"]
    assert started == [(sys.executable, [sys.executable, "-m", "vllm.entrypoints.cli.main", *given])]
    assert "vllm serve 'a folder'" in capsys.readouterr().err
    assert os.environ == {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "75", "VLLM_WORKER_MULTIPROC_METHOD": "fork"}


def test_variables_of_the_user_stay(monkeypatch) -> None:
    monkeypatch.setattr(serve, "_versions", lambda: COMPLETE)
    monkeypatch.setattr(os, "execv", lambda *_: None)
    theirs = {"VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "9", "VLLM_WORKER_MULTIPROC_METHOD": "spawn"}
    monkeypatch.setattr(os, "environ", dict(theirs))
    tools.main(["serve", "folder", "--uds", "path"])
    assert os.environ == theirs


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ([], [GRAPHS, *OURS]),
        (["--max_num_seqs=8", "-tp", "2"], [GRAPHS, *OURS[:3], "8", "-tp", "2"]),
        (["--gpu-memory-utilization", "0.2"], [GRAPHS, OURS[0], "0.2", *OURS[2:]]),
        (["--lora-modules", "a=b", "c=d"], [GRAPHS, *OURS, "--lora-modules", "a=b", "c=d"]),
    ],
)
def test_options_of_the_user_replace_ours(given, result) -> None:
    assert serve.with_defaults(given) == result


@pytest.mark.parametrize(
    ("given", "result"),
    [
        ({"other": 1}, {"other": 1, "npugraph_ex_config": {"enable": True}}),
        ({"npugraph_ex_config": {"enable": False}}, {"npugraph_ex_config": {"enable": False}}),
        (
            {"npugraph_ex_config": {"enable_static_kernel": True}},
            {"npugraph_ex_config": {"enable": True, "enable_static_kernel": True}},
        ),
    ],
)
def test_additional_settings_join_ours(given, result) -> None:
    for name in ("--additional-config", "--additional_config"):
        first, text, *others = serve.with_defaults([name, json.dumps(given)])
        assert (first, json.loads(text), others) == ("--additional-config", result, OURS)


@pytest.mark.parametrize("text", ["{", "[1]", '{"npugraph_ex_config": 1}'])
def test_additional_settings_that_are_no_object(monkeypatch, capsys, text) -> None:
    monkeypatch.setattr(serve, "_versions", lambda: COMPLETE)
    assert tools.main(["serve", "folder", "--additional-config", text]) == 2
    assert "it must be an object of JSON" in capsys.readouterr().err


def test_a_port_that_is_taken(monkeypatch, capsys) -> None:
    monkeypatch.setattr(serve, "_versions", lambda: COMPLETE)
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("the server was started"))
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert tools.main(["serve", "folder", f"--port={port}"]) == 2
    assert f"port {port} is taken by another program; give another one with --port" in capsys.readouterr().err


def test_options_in_a_file_replace_ours(tmp_path) -> None:
    file = tmp_path / "options.yaml"
    file.write_text("max-num-seqs: 8\nadditional_config: {other: 1}\n")
    first, text, *others = serve.with_defaults(["--config", str(file), "--port", "1"])
    assert (first, json.loads(text)) == ("--additional-config", {"other": 1, "npugraph_ex_config": {"enable": True}})
    assert others == [*OURS[:2], "--config", str(file), "--port", "1"]
