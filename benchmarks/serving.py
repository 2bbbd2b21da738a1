# SPDX-License-Identifier: Apache-2.0
"""Measures servers of SmolLM2-135M-Instruct (bf16, real weights) under the same load: 1, 4, 16 and 64 users, each of
whom sends a request when the last one is answered. Prompts have mixed lengths; answers are greedy and stream.

The sides are vLLM on our device (``npugraph_ex``: pair 0.30, ``npugraph_ex-0.14``: pair 0.14), vLLM's own CPU backend,
llama.cpp's server, and ``eager``: ``generate`` of transformers in batches of as many requests as there are users. All
have the same threads. In each round the servers run one after the other, and each gets the loads of all numbers of
users; the users' process shares the cores. Each round has prompts of its own, so that no server has them in a cache.

A number of users has three cases: the time of all over the tokens of all, the time to the first token, and the time
from a token to the next. The last two are medians of a sample. ``error`` is the share of requests that failed.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks import peers, processes, servers, serving_load
from benchmarks.harness import Request, Result, SideResult
from benchmarks.servers import Model
from benchmarks.serving_load import Load, Record, median, percentile

NAME = "serving"
OTHERS = ("eager", peers.VLLM_CPU, peers.LLAMA)
SIDES = (*OTHERS, *servers.PAIRS)
USERS = (1, 4, 16, 64)
REQUESTS = {1: 8, 4: 4, 16: 3, 64: 2}  # of each user
SIZES = {"prompt": (16, 256), "answer": (64, 64)}  # tokens
ROUNDS = 3
QUICK_USERS, QUICK_REQUESTS, QUICK_SIZES = (1, 4), 1, {"prompt": (16, 64), "answer": (16, 16)}
PER_TOKEN, FIRST, BETWEEN = CASES = ("per token", "first token", "between tokens")
WARM_UP = {"prompt": (16, 64), "answer": (4, 4)}
TAIL = 95  # percent
WARM_UP_SEED = -1


def run(request: Request) -> Iterator[Result]:
    yield from compare(request, NAME, servers.BF16, QUICK_USERS if request.wants_few else USERS, SIDES)


def compare(request: Request, name: str, model: Model, known: Sequence[int], sides: Sequence[str]) -> Iterator[Result]:
    """Measures ``model`` for the benchmark ``name``: ``sides``, with each of the ``known`` numbers of users."""
    wanted = [users for users in known if any(request.wants(name, case_name(case, users)) for case in CASES)]
    chosen = [side for side in sides if side in request.sides]
    if not wanted or not chosen:
        return
    rounds = {side: itertools.count() for side in chosen}
    with tempfile.TemporaryDirectory() as cache:

        def take(side: str) -> processes.Sample:
            servers.write_files(side, model)
            seed = next(rounds[side])
            loads = {users: make_load(seed, users, request.quick) for users in wanted}
            return measure(side, model, loads, Path(cache))

        taken, notes = processes.take_turns(chosen, 1 if request.quick else ROUNDS, take)
    for users in wanted:
        records = {side: [sample["records"][users] for sample in samples] for side, samples in taken.items()}
        yield from results(name, users, records, notes)


def make_load(seed: int, users: int, quick: bool) -> Load:
    requests, sizes = (QUICK_REQUESTS, QUICK_SIZES) if quick else (REQUESTS[users], SIZES)
    return serving_load.make(seed, users, requests, folder=servers.BF16.folder, **sizes)


def measure(side: str, model: Model, loads: dict[int, Load], cache: Path) -> processes.Sample:
    """Returns ``records``: what came of each of ``loads``, by the number of users. ``seconds`` are those of all."""
    if side == "eager":
        records = {users: serving_load.generate(model.folder, load, sys.executable) for users, load in loads.items()}
    else:
        threads = len(os.sched_getaffinity(0))
        with servers.started(side, model, servers.options_for(side, threads), cache) as server:
            records = {users: serve(server.url, users, load) for users, load in loads.items()}
    return {"records": records, "seconds": sum(record.seconds for record in records.values())}


def serve(url: str, users: int, load: Load) -> Record:
    """Sends ``load``, after as many users have brought the server to work in batches of their number."""
    python = servers.client_python()
    serving_load.send(url, serving_load.make(WARM_UP_SEED, users, 1, folder=servers.BF16.folder, **WARM_UP), python)
    return serving_load.send(url, load, python)


def results(name: str, users: int, records: dict[str, list[Record]], notes: dict[str, str]) -> Iterator[Result]:
    figures: dict[str, Callable[[Record], float]] = {
        PER_TOKEN: lambda record: record.seconds / max(1, record.tokens()),
        FIRST: lambda record: median(record.first()),
        BETWEEN: lambda record: median(record.between()),
    }
    failed = {side: [failure for record in taken for failure in record.failures()] for side, taken in records.items()}
    for case, figure in figures.items():
        compared = [
            SideResult(side, [figure(record) for record in taken], share_of(failed[side], taken))
            for side, taken in records.items()
        ]
        result = Result(name, case_name(case, users), compared, notes=dict(notes))
        result.notes |= more_notes(case, records)
        result.notes |= {f"failure of {side}": failures[0][:200] for side, failures in failed.items() if failures}
        yield result


def share_of(failures: Sequence[str], taken: Sequence[Record]) -> float:
    return len(failures) / sum(len(record.all()) for record in taken)


def more_notes(case: str, records: dict[str, list[Record]]) -> dict[str, str]:
    if case == PER_TOKEN:
        rates = {side: [record.tokens() / record.seconds for record in taken] for side, taken in records.items()}
        notes = {"tokens/s": ", ".join(f"{side} {median(rate):.1f}" for side, rate in rates.items())}
        agreed = ", ".join(agreements(records))
        return notes | ({"part of the text before it differs from eager's": agreed} if agreed else {})
    of_record = Record.first if case == FIRST else Record.between
    tails = {side: percentile([x for r in taken for x in of_record(r)], TAIL) for side, taken in records.items()}
    return {f"{TAIL} % are below": ", ".join(f"{side} {tail * 1e3:.1f} ms" for side, tail in tails.items())}


def agreements(records: dict[str, list[Record]]) -> Iterator[str]:
    """Rounding differs from side to side, so greedy texts part where two tokens are nearly as likely. A side whose
    texts part at their beginning computes something else."""
    texts = {side: [answer["text"] for record in taken for answer in record.all()] for side, taken in records.items()}
    expected = texts.pop("eager", [])
    for side, others in texts.items():
        parts = [common(text, other) / max(1, len(text)) for text, other in zip(expected, others, strict=False)]
        if parts:
            yield f"{side} {sum(parts) / len(parts):.2f}"


def common(text: str, other: str) -> int:
    """The length of the longest text with which both begin."""
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False))
    return sum(1 for _ in pairs)


def case_name(case: str, users: int) -> str:
    return f"{case} {users} users"
