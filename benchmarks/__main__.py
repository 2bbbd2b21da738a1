# SPDX-License-Identifier: Apache-2.0
"""Runs benchmarks: python -m benchmarks [NAME ...] [--quick] [--json FILE]; from the repository root."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
import torch._dynamo

import npugraph
from benchmarks import (
    ascend_decoders,
    busy_machine,
    call_overhead,
    changing_sizes,
    cold_start,
    cost_model_regret,
    ddp_step,
    fused_loops,
    ge_instructions,
    import_time,
    inference_cache,
    int8_layers,
    kv_cache,
    lifecycle,
    machine,
    memory,
    model_speed,
    npu_eager,
    pass_time,
    peers,
    replay_overhead,
    report,
    servers,
    serving,
    serving_int8,
    serving_start,
    sides,
    smollm2_decode,
    smollm2_prefill,
    training_step,
    tuned_products,
    two_streams,
    warm_start,
    weight_only_layers,
)
from benchmarks.harness import Request, Result

BENCHMARKS = {
    module.NAME: module
    for module in (
        replay_overhead,
        cost_model_regret,
        call_overhead,
        smollm2_decode,
        smollm2_prefill,
        fused_loops,
        model_speed,
        cold_start,
        warm_start,
        inference_cache,
        int8_layers,
        weight_only_layers,
        changing_sizes,
        memory,
        kv_cache,
        lifecycle,
        two_streams,
        training_step,
        ddp_step,
        npu_eager,
        import_time,
        pass_time,
        busy_machine,
        serving,
        serving_int8,
        serving_start,
        ge_instructions,
        tuned_products,
        ascend_decoders,
    )
}
SAMPLES, QUICK_SAMPLES = 15, 5


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--version", action="version", version=f"npugraph {npugraph.__version__}")
    parser.add_argument("--quick", action="store_true", help="few samples; of models two, or those of --cases")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything measured as JSON")
    parser.add_argument("--resume", action="store_true", help="keep what FILE holds of this commit, measure the rest")
    parser.add_argument("--cases", type=comma_separated, default=("*",), help='patterns: "bert*,gpt2 base*"')
    parser.add_argument("--sides", type=comma_separated, help="comma-separated; default: all four")
    parser.add_argument("--peers", action="store_true", help="also the sides of benchmarks/peers.py")
    parser.add_argument("--isa", choices=tuple(machine.ISA), help="hold all sides to these instructions (default: all)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="cores to pin to (default: all)")
    parsed = parser.parse_args(arguments)
    if parsed.isa and not machine.ONLY_AVX2.exists():
        parser.error(f"--isa needs {machine.ONLY_AVX2}, which is built on x86-64: make build")
    if parsed.resume and not parsed.json:
        parser.error("--resume needs --json FILE")
    refuse_unknown(parser, "benchmark", parsed.names, BENCHMARKS)
    known_sides = dict.fromkeys(
        (*sides.DEFAULT_SIDES, *peers.ALL, servers.OURS_014, *torch._dynamo.list_backends(exclude_tags=()))
    )
    refuse_unknown(parser, "side", parsed.sides or (), known_sides)
    return parsed


def comma_separated(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def refuse_unknown(parser: argparse.ArgumentParser, what: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            parser.error(f"no {what} {name!r}; there are: {', '.join(known)}")


def main(arguments: list[str] | None = None) -> int:
    parsed = parse_arguments(arguments)
    if parsed.isa and not machine.is_held_to(parsed.isa):
        # Libraries read the variables when they are loaded.
        command = [sys.executable, "-m", "benchmarks", *(sys.argv[1:] if arguments is None else arguments)]
        os.execve(sys.executable, command, os.environ | machine.ISA[parsed.isa])
    machine.pin(parsed.threads)
    torch.set_grad_enabled(False)
    os.environ["HF_HUB_OFFLINE"] = "1"
    described = machine.describe()
    print(f"{described['processor']}, {described['threads']} threads, torch {torch.__version__}")
    record = report.Record([described])
    if parsed.resume and parsed.json.exists():
        record = report.resume(parsed.json, described)
    request = Request(
        parsed.sides or default_sides(parsed),
        QUICK_SAMPLES if parsed.quick else SAMPLES,
        parsed.quick,
        parsed.cases,
        frozenset((result.benchmark, result.case) for result in record.results),
    )
    for name in parsed.names or BENCHMARKS:
        for _ in run_one(name, request, record.results):
            if parsed.json:
                report.write_json(parsed.json, record)
    verdicts = report.bars(record.results)
    if verdicts:
        print("\nbars\n" + "\n".join(verdicts))
    errors = [error for result in record.results for error in report.errors(result)]
    for error in errors:
        print(error)
    return 1 if errors else 0


def default_sides(parsed: argparse.Namespace) -> tuple[str, ...]:
    if parsed.peers:
        return peers.ALL
    return sides.QUICK_SIDES if parsed.quick else sides.DEFAULT_SIDES


def run_one(name: str, request: Request, results: list[Result]) -> Iterator[Result]:
    """Runs one benchmark and prints its table. Warns if other processes used the machine meanwhile. Each result is in
    ``results`` before it is yielded."""
    print(f"\n{name}\n{report.HEADER}", flush=True)
    load = machine.ForeignLoad()
    for result in BENCHMARKS[name].run(request):
        result.foreign_load = load.share()
        results.append(result)
        print(report.lines(result), flush=True)
        if result.foreign_load > machine.LOADED:
            share = f"{result.foreign_load:.0%}"
            print(f"warning: other processes used {share} of the machine; do not trust these figures", flush=True)
        yield result
        load = machine.ForeignLoad()


if __name__ == "__main__":
    sys.exit(main())
