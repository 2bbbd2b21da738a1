# SPDX-License-Identifier: Apache-2.0
"""Requests of users, drawn from the documents of this project, and what comes of them."""

from __future__ import annotations

import json
import random
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import processes

MODEL = "smollm2"  # the name by which every server serves it
Body = dict[str, Any]  # of a request
Load = list[list[Body]]  # the requests of each user


def make(
    seed: int,
    users: int,
    requests: int,
    *,
    folder: Path,
    prompt: tuple[int, int],
    answer: tuple[int, int],
    **more: Any,
) -> Load:
    """Returns ``requests`` requests for each user, whose prompts and answers have as many tokens as the ranges
    ``prompt`` and ``answer`` allow. Equal arguments make equal loads. ``folder`` is that of the model. ``more`` is
    added to each request."""
    rng, ids = random.Random(f"{seed} {users}"), _text_as_ids(folder)

    def body() -> Body:
        length = rng.randint(*prompt)
        begin = rng.randrange(len(ids) - length)
        return {
            "model": MODEL,
            "prompt": ids[begin : begin + length],
            "max_tokens": rng.randint(*answer),
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
            **more,
        }

    return [[body() for _ in range(requests)] for _ in range(users)]


@cache
def _text_as_ids(folder: Path) -> list[int]:
    from tokenizers import Tokenizer

    text = "\n".join(path.read_text() for path in sorted((processes.ROOT / "docs").rglob("*.md")))
    return Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text, add_special_tokens=False).ids


@dataclass
class Record:
    """What came of a load. Each answer has ``text``, ``tokens``, the seconds after its request at which pieces of it
    arrived (``arrivals``), ``ids`` and ``top`` (token ids and the most likely tokens, if the request asks for them),
    and ``failure``, which is None or a reason."""

    seconds: float
    answers: list[list[dict[str, Any]]]

    def all(self) -> list[dict[str, Any]]:
        return [answer for answers in self.answers for answer in answers]

    def failures(self) -> list[str]:
        return [answer["failure"] for answer in self.all() if answer["failure"]]

    def tokens(self) -> int:
        return sum(answer["tokens"] for answer in self.all())

    def first(self) -> list[float]:
        """The time from each request to its first token."""
        return [answer["arrivals"][0] for answer in self.all() if answer["arrivals"]]

    def between(self) -> list[float]:
        """All times from a token to the next one."""
        pairs = (zip(answer["arrivals"], answer["arrivals"][1:], strict=False) for answer in self.all())
        return [later - earlier for answer in pairs for earlier, later in answer]


def percentile(values: Sequence[float], percent: int) -> float:
    """The least of ``values`` that ``percent`` of them do not exceed."""
    return sorted(values)[-(-len(values) * percent // 100) - 1]


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def send(url: str, load: Load, python: str) -> Record:
    """Sends ``load`` to a server, from a process of its own. ``python`` has aiohttp."""
    return _run("benchmarks.samples.serving_client", url, load, python)


def generate(folder: Path, load: Load, python: str) -> Record:
    """Has transformers answer ``load``: one request of each user in a batch, then the next ones."""
    return _run("benchmarks.samples.serving_generate", folder, load, python)


def _run(module: str, target: object, load: Load, python: str) -> Record:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(load, file)
        file.flush()
        return Record(**processes.run_module(module, (target, file.name), python))
