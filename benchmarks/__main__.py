# SPDX-License-Identifier: Apache-2.0
"""Runs benchmarks: python -m benchmarks [NAME ...] [--quick] [--json FILE]; from the repository root."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import torch
import torch._dynamo

from benchmarks import (
    call_overhead,
    cold_start,
    fused_loops,
    machine,
    model_speed,
    peers,
    replay_overhead,
    report,
    sides,
    smollm2_decode,
)
from benchmarks.harness import Result

BENCHMARKS = {
    module.NAME: module
    for module in (replay_overhead, call_overhead, smollm2_decode, fused_loops, model_speed, cold_start)
}
SAMPLES, QUICK_SAMPLES = 15, 5


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="few samples, Inductor only where it compiles fast")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything measured as JSON")
    parser.add_argument("--sides", type=lambda text: text.split(","), help="comma-separated; default: all four")
    parser.add_argument("--peers", action="store_true", help="also the sides of benchmarks/peers.py")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="cores to pin to (default: all)")
    parsed = parser.parse_args(arguments)
    refuse_unknown(parser, "benchmark", parsed.names, BENCHMARKS)
    known_sides = dict.fromkeys((*sides.DEFAULT_SIDES, *peers.ALL, *torch._dynamo.list_backends(exclude_tags=())))
    refuse_unknown(parser, "side", parsed.sides or (), known_sides)
    return parsed


def refuse_unknown(parser: argparse.ArgumentParser, what: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            parser.error(f"no {what} {name!r}; there are: {', '.join(known)}")


def main(arguments: list[str] | None = None) -> int:
    parsed = parse_arguments(arguments)
    machine.pin(parsed.threads)
    torch.set_grad_enabled(False)
    os.environ["HF_HUB_OFFLINE"] = "1"
    described = machine.describe()
    print(f"{described['processor']}, {described['threads']} threads, torch {torch.__version__}")
    side_names = parsed.sides or default_sides(parsed)
    samples = QUICK_SAMPLES if parsed.quick else SAMPLES
    results: list[Result] = []
    for name in parsed.names or BENCHMARKS:
        results += run_one(name, side_names, samples, parsed.quick)
    verdicts = report.bars(results)
    if verdicts:
        print("\nbars\n" + "\n".join(verdicts))
    if parsed.json:
        report.write_json(parsed.json, described, results)
    return 0


def default_sides(parsed: argparse.Namespace) -> tuple[str, ...]:
    if parsed.peers:
        return peers.ALL
    return sides.QUICK_SIDES if parsed.quick else sides.DEFAULT_SIDES


def run_one(name: str, side_names: list[str], samples: int, quick: bool) -> list[Result]:
    """Runs one benchmark, prints its table, and warns when others used the machine meanwhile."""
    load = machine.ForeignLoad()
    print(f"\n{name}\n{report.HEADER}", flush=True)
    results = []
    for result in BENCHMARKS[name].run(side_names, samples, quick):
        print(report.lines(result), flush=True)
        results.append(result)
    foreign = load.share()
    for result in results:
        result.foreign_load = foreign
    if foreign > machine.LOADED:
        print(f"warning: other processes used {foreign:.0%} of the machine; do not trust these figures")
    return results


if __name__ == "__main__":
    sys.exit(main())
