# SPDX-License-Identifier: Apache-2.0
"""Loads one of our servers for long: python -m benchmarks.serving_soak [--minutes 30]; from the repository root.

First 200 requests of mixed lengths are in flight together, at the memory settings of ``python -m npugraph serve``.
Each answer is compared with that of the same request alone (greedy). Batches of other sizes round differently, so two
tokens that are nearly as likely may change places; such an answer counts as equal if the request alone found the two
within CLOSE. Then ``vllm bench serve`` keeps the server busy, while its memory is sampled.

Exits with status 1 if a request fails, an answer differs, the memory grows by more than GROWTH, or the server ends.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import machine, servers, serving_load, sides
from benchmarks.servers import Server

REQUESTS, QUICK_REQUESTS = 200, 8
SIZES = {"prompt": (8, 768), "answer": (8, 128)}  # tokens
QUICK_SIZES = {"prompt": (8, 160), "answer": (4, 12)}
MIB = 2**20
GROWTH = 1.02  # memory in the last quarter of the load over that in the second quarter
# Logits of this model are between 16 and 32, where two neighbours of bf16 are 1/8 apart; each of two may be off by one.
CLOSE = 0.25
PROMPTS_OF_A_RUN = 1000  # of ``vllm bench serve``, which is repeated until the time is over
QUICK_PROMPTS = 16
CONCURRENT = 64
TWO_BEST = {"logprobs": 2, "return_tokens_as_token_ids": True}  # distinct tokens may have the same text


@dataclass
class Difference:
    """An answer that differs from that of the same request alone, first at token ``position``. There the request alone
    found its two best tokens ``margin`` apart, in natural logarithms of their probabilities."""

    request: int
    position: int
    margin: float

    @property
    def close(self) -> bool:
        return self.margin <= CLOSE


@dataclass
class Report:
    machine: dict[str, Any]
    requests: int = 0
    failures: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    load: list[dict[str, Any]] = field(default_factory=list)  # of each run of ``vllm bench serve``
    resident: list[tuple[float, int]] = field(default_factory=list)  # seconds since the load began, bytes
    alive: bool = False

    def growth(self) -> float:
        """The memory in the last quarter of the load over that in the second quarter."""
        values = [size for _, size in self.resident]
        if not values:
            return 1.0
        quarter = max(1, len(values) // 4)
        return mean(values[-quarter:]) / mean(values[quarter : 2 * quarter] or values[:1])

    def problems(self) -> list[str]:
        wrong = [difference for difference in self.differences if not difference.close]
        failed = sum(run["failed"] for run in self.load)
        errors = [error for run in self.load for error in run["errors"]]
        found = {
            f"{len(self.failures)} requests failed: {self.failures[:1]}": self.failures,
            f"{len(wrong)} answers differ where no two tokens are close: {wrong[:3]}": wrong,
            f"{failed} requests of vllm bench serve failed: {errors[:1]}": failed,
            f"memory grew by a factor of {self.growth():.3f}, more than {GROWTH}": self.growth() > GROWTH,
            "the server has ended": not self.alive,
        }
        return [problem for problem, is_one in found.items() if is_one]


def main(arguments: list[str] | None = None) -> int:
    parsed = parse_arguments(arguments)
    machine.pin(parsed.threads)
    servers.write_files(parsed.side, servers.BF16)
    report = Report(machine.describe())
    print(f"{report.machine['processor']}, {report.machine['threads']} threads, {parsed.side}", flush=True)
    with (
        tempfile.TemporaryDirectory() as cache,
        servers.started(parsed.side, servers.BF16, parsed.option, Path(cache)) as server,
    ):
        compare(server, report, parsed.quick)
        with sampled(server, report, parsed.minutes):
            keep_busy(server, report, parsed)
        report.alive = server.alive() and server.answers()
    print(summary(report))
    if parsed.json:
        parsed.json.write_text(json.dumps(asdict(report), indent=1) + "\n")
    return 1 if report.problems() else 0


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving_soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30, help="of load (default: 30)")
    parser.add_argument("--side", choices=tuple(servers.PAIRS), default=sides.OURS, help="the pair of versions")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="cores to pin to (default: all)")
    parser.add_argument("--option", action="append", default=[], help="one more option of the server; may be repeated")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_REQUESTS} short requests, short runs of load")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything measured as JSON")
    return parser.parse_args(arguments)


def compare(server: Server, report: Report, quick: bool) -> None:
    """Sends the requests together, then one after the other, and adds the differences to ``report``."""
    count, sizes = (QUICK_REQUESTS, QUICK_SIZES) if quick else (REQUESTS, SIZES)
    # The salt keeps the requests alone from the cache that the others have filled.
    together = serving_load.make(0, count, 1, folder=servers.BF16.folder, return_token_ids=True, **sizes)
    alone = [[body | {"cache_salt": "alone", **TWO_BEST} for bodies in together for body in bodies]]
    records = [serving_load.send(server.url, load, servers.client_python()) for load in (together, alone)]
    report.requests = count
    report.failures = [failure for record in records for failure in record.failures()]
    pairs = zip(*(record.all() for record in records), strict=True)
    for request, (answer, expected) in enumerate(pairs):
        if answer["ids"] != expected["ids"] and not (answer["failure"] or expected["failure"]):
            report.differences.append(first_difference(request, answer, expected))
    print(f"{count} requests together in {records[0].seconds:.1f} s, alone in {records[1].seconds:.1f} s", flush=True)


def first_difference(request: int, answer: dict[str, Any], expected: dict[str, Any]) -> Difference:
    pairs = zip(answer["ids"], expected["ids"], strict=True)
    position = next(i for i, (token, other) in enumerate(pairs) if token != other)
    best, second, *_ = sorted(expected["top"][position].values(), reverse=True)
    return Difference(request, position, best - second)


def keep_busy(server: Server, report: Report, parsed: argparse.Namespace) -> None:
    """Runs ``vllm bench serve`` until the minutes are over or a run fails. The runs have seeds of their own."""
    end = time.monotonic() + parsed.minutes * 60
    try:
        while time.monotonic() < end:
            report.load.append(bench_serve(server, parsed.side, len(report.load), parsed.quick))
    except RuntimeError as error:
        report.failures.append(str(error))


def bench_serve(server: Server, side: str, seed: int, quick: bool) -> dict[str, Any]:
    """Returns what a run of ``vllm bench serve`` says of itself. Raises RuntimeError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "base-url": server.url,
            "model": servers.BF16.folder,
            "served-model-name": serving_load.MODEL,
            "dataset-name": "random",
            "random-input-len": 256,
            "random-output-len": 64,
            "random-range-ratio": 0.8,
            "num-prompts": QUICK_PROMPTS if quick else PROMPTS_OF_A_RUN,
            "max-concurrency": CONCURRENT,
            "seed": seed,
            "result-dir": folder,
            "result-filename": "result.json",
        }
        flags = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        program = [servers.python_of(side), "-m", "vllm.entrypoints.cli.main", "bench", "serve", *flags]
        environment = servers.environment_of(side, Path(folder))
        more = ["--save-result", "--save-detailed", "--ignore-eos", "--disable-tqdm"]
        done = subprocess.run([*program, *more], env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"vllm bench serve ended with status {done.returncode}:\n{done.stderr[-4000:]}")
        result = json.loads(Path(folder, "result.json").read_text())
    kept = ("completed", "failed", "duration", "output_throughput", "median_ttft_ms", "median_itl_ms")
    return {name: result[name] for name in kept} | {"errors": [error for error in result["errors"] if error]}


@contextmanager
def sampled(server: Server, report: Report, minutes: float) -> Iterator[None]:
    """Adds the memory of the server to ``report`` each minute, or ten times in a load of less than ten minutes."""
    over, start, interval = threading.Event(), time.monotonic(), min(60, minutes * 60 / 10)

    def sample() -> None:
        while server.alive() and not over.wait(interval):
            report.resident.append((time.monotonic() - start, server.resident()))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def summary(report: Report) -> str:
    sizes = [size / MIB for _, size in report.resident]
    completed = sum(run["completed"] for run in report.load)
    lines = [
        f"{report.requests} requests, {len(report.failures)} failed, {len(report.differences)} answers differ",
        *(f"  request {d.request} at token {d.position}, margin {d.margin:.3f}" for d in report.differences),
        f"load: {len(report.load)} runs, {completed} requests, {sum(run['failed'] for run in report.load)} failed",
        f"memory in MiB: {', '.join(f'{size:.0f}' for size in sizes)}; grew by a factor of {report.growth():.4f}",
        *(f"NOT MET {problem}" for problem in report.problems()),
    ]
    return "\n".join(lines if report.problems() else [*lines, "met"])


if __name__ == "__main__":
    sys.exit(main())
