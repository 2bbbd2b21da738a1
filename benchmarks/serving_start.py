# SPDX-License-Identifier: Apache-2.0
"""Measures how long servers of SmolLM2-135M-Instruct (bf16) take from their start until they take requests: at a first
start, which finds no caches, and at a second one, which finds what the first one kept.

A case is a server: vLLM on our device (``npugraph_ex``: pair 0.30, ``npugraph_ex-0.14``: pair 0.14), or vLLM's own CPU
backend. Only the very first start reads files from the disk; later ones find them in the host's memory.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import peers, servers
from benchmarks.harness import Request, Result, SideResult

NAME = "serving_start"
CASES = (*servers.PAIRS, peers.VLLM_CPU)
FIRST, SECOND = "first start", "second start"
ROUNDS = 3


def run(request: Request) -> Iterator[Result]:
    for server in CASES:
        if server in request.sides and request.wants(NAME, server):
            yield compare(server, 1 if request.quick else ROUNDS)


def compare(server: str, rounds: int) -> Result:
    try:
        servers.write_files(server, servers.BF16)
        pairs = [take_pair(server) for _ in range(rounds)]
    except RuntimeError as error:
        return Result(NAME, server, [], notes={server: f"does not run: {error}"})
    taken = zip((FIRST, SECOND), zip(*pairs, strict=True), strict=True)
    return Result(NAME, server, [SideResult(start, list(seconds), 0) for start, seconds in taken], baseline=FIRST)


def take_pair(server: str) -> list[float]:
    """The seconds of a first and of a second start, which share caches of their own."""
    with tempfile.TemporaryDirectory() as cache:
        return [seconds_of_start(server, Path(cache)) for _ in range(2)]


def seconds_of_start(server: str, cache: Path) -> float:
    options = servers.options_for(server, len(os.sched_getaffinity(0)))
    begin = time.monotonic()
    with servers.started(server, servers.BF16, options, cache):
        return time.monotonic() - begin
