# SPDX-License-Identifier: Apache-2.0
"""What users of ``python -m npugraph serve`` see when something goes wrong: an error that says what to do, and nothing
that is left running. The servers capture no graphs, because none of this depends on them."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator

import httpx
import pytest
from processes import DIED, SMALL, Server, serving

PROMPT = {"model": "smollm2", "prompt": "The capital of France is", "max_tokens": 4, "temperature": 0}
OPTIONS = ["--served-model-name=smollm2", "--enforce-eager"]


@pytest.fixture
def failing(smollm2: str, environment: dict[str, str]) -> Iterator[object]:
    """Starts servers that do not become ready. Returns their output, once no process of them is left."""
    servers = []

    def start(*options: str, **variables: str) -> str:
        servers.append(Server(smollm2, *SMALL, *OPTIONS, *options, environment=environment | variables))
        return servers[-1].wait_until_failed().output

    yield start
    for server in servers:
        server.kill()


def text(server: Server) -> str:
    answer = httpx.post(f"{server.root}/v1/completions", json=PROMPT, timeout=60).raise_for_status()
    return answer.json()["choices"][0]["text"]


def test_two_servers_share_the_host_and_one_may_lose_its_engine(smollm2: str, environment: dict[str, str]) -> None:
    with serving(smollm2, *OPTIONS, environment=environment) as lives:
        dies = Server(smollm2, *SMALL, *OPTIONS, environment=environment)
        try:
            dies.wait_until_ready()
            before = text(lives)
            assert text(dies) == before
            engine = next(process for process in dies.processes() if "EngineCore" in process.cmdline()[0])
            engine.send_signal(signal.SIGKILL)
            dies.wait()
            assert DIED.search(dies.output)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("", dies.port))  # the port is free again
            assert text(lives) == before
        finally:
            dies.kill()


def test_a_cache_that_holds_no_request(failing) -> None:
    output = failing("--max-model-len=8192", "--gpu-memory-utilization=0.2", NPUGRAPH_DEVICE_MEMORY="2GiB")
    assert "gpu_memory_utilization" in output
    assert "max_model_len" in output


def test_a_device_that_is_too_small_for_the_model(failing) -> None:
    output = failing(NPUGRAPH_DEVICE_MEMORY="200MiB")
    assert "NPUGRAPH_DEVICE_MEMORY sets the size of the device" in output
