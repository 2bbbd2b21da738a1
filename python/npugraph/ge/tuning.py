# SPDX-License-Identifier: Apache-2.0
"""Measures the plans that products of a graph may have, in the graph, and keeps the fastest ones for later compiles.

The engine chooses a plan by a cost model. Here each product gets in turn the other plans that add its sums in the same
order, so that results stay the same bits. Plans take turns in short samples. One round in two tells which plan is the
fastest, and the others tell by how much. A plan that is not clearly faster than that of the cost model is not taken."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from npugraph import _C
from npugraph.ge import proto
from npugraph.log import logger
from npugraph.ranks import rank

_SAMPLE_SECONDS = 3e-4
_MOST_CALLS = 1000
_SCREENING, _ROUNDS = 4, 24
_FAR_BEHIND = 1.5
_LEAST_GAIN = 0.97  # of the time of the cost model's plan
_LEAST_WINS = 0.7  # of the rounds


@dataclasses.dataclass
class Product:
    """What was measured for one product. Blocks are texts of the repository."""

    product: str
    cost_model: str
    chosen: str
    microseconds: dict[str, float]
    ratio: float  # of the chosen plan to that of the cost model, in rounds that did not choose it


@dataclasses.dataclass
class _Plan:
    blocks: str
    run: Callable[[], None]
    seconds: list[float] = dataclasses.field(default_factory=list)


def why_not(model: bytes) -> str:
    """Why a graph cannot run more often than the program calls it; empty if it can."""
    for op in proto.ModelDef.FromString(model).graph[0].op:
        if op.type.startswith(("Hcom", "Print")):
            return f"operator {op.type} acts outside of it"
    return ""


def tune(model: bytes, request: Any, device: torch.device, inputs: Sequence[Any]) -> list[Product]:
    """Measures the products of a serialised graph with these inputs, which stay as they are, and keeps what it finds.
    Products that the repository knows are left out. Random numbers of the graph are drawn from copies of generators."""
    operators = proto.ModelDef.FromString(model).graph[0].op
    written = {op.attr["index"].i for op in operators if op.type == "RefData"}
    given = [value.clone() if place in written else value for place, value in enumerate(inputs)]
    with torch.random.fork_rng(devices=[device.index or 0] if device.type == "npu" else [], device_type=_kind(device)):
        _C.ge.note_products()
        _run_of(model, request, device, given)()
        noted = _C.ge.noted_products()
        found = [
            tune_product(key, blocks, lambda: _run_of(model, request, device, given))
            for key, blocks, is_known in noted
            if not is_known and len(blocks) > 1
        ]
    for product in found:
        _C.ge.keep_product(product.product, product.chosen)
    return found


def write(name: str, products: Sequence[Product], directory: str) -> Path:
    """Writes what was measured to a new file of an existing directory, and returns its path."""
    stamp = datetime.datetime.now().strftime("%Y%m%d%H%M%S%f")
    path = Path(directory) / f"aoe_result_{name}_rank_{rank()}_pid_{os.getpid()}_ts_{stamp}.json"
    report = {
        "graph": name,
        "repository": _C.ge.tuned_path(),
        "products": [dataclasses.asdict(product) for product in products],
    }
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return path


def _kind(device: torch.device) -> str:
    return "npu" if device.type == "npu" else "cpu"


def _run_of(model: bytes, request: Any, device: torch.device, inputs: Sequence[Any]) -> Callable[[], None]:
    """Compiles the graph with the choices that products have now, and returns a function that runs it to its end."""
    function = _C.ge.compile(model, request, device).callable(boxed=False)

    def run() -> None:
        function(*inputs)
        if device.type == "npu":
            torch.npu.synchronize(device)

    run()  # plans are made for the first call of given sizes
    return run


def tune_product(key: str, blocks: Sequence[str], make: Callable[[], Callable[[], None]]) -> Product:
    """Measures the plans of one product, that of the cost model first. ``make`` returns a function that runs the graph
    with the plan that is chosen at that time. Leaves the product without a choice."""
    plans = []
    for one in blocks:
        _C.ge.choose_product(key, one)
        try:
            plans.append(_Plan(one, make()))
        finally:
            _C.ge.choose_product(key, None)
    usual = plans[0]
    _take_turns(plans, _SCREENING, 1)
    least = min(min(plan.seconds) for plan in plans)
    plans = [plan for plan in plans if plan is usual or min(plan.seconds) <= _FAR_BEHIND * least]
    calls = max(1, min(_MOST_CALLS, int(_SAMPLE_SECONDS / max(least, 1e-9))))
    for plan in plans:
        plan.seconds.clear()
    _take_turns(plans, 2 * _ROUNDS, calls)
    best = min(plans, key=lambda plan: _undisturbed(plan.seconds[::2]))
    told, of_usual = best.seconds[1::2], usual.seconds[1::2]
    ratio = _undisturbed(told) / _undisturbed(of_usual)
    wins = sum(a < b for a, b in zip(told, of_usual, strict=True))
    if ratio > _LEAST_GAIN or wins < _LEAST_WINS * _ROUNDS:
        best, ratio = usual, 1.0
    times = {plan.blocks: round(_undisturbed(plan.seconds[1::2]) * 1e6, 3) for plan in plans}
    logger.info("product %s: %s, %.3f of the time of %s", key, best.blocks, ratio, usual.blocks)
    return Product(key, usual.blocks, best.blocks, times, round(ratio, 4))


def _take_turns(plans: Sequence[_Plan], rounds: int, calls: int) -> None:
    """Adds a sample to each plan in each round, in an order of chance."""
    order = list(plans)
    chance = random.Random(1)
    for _ in range(rounds):
        chance.shuffle(order)
        for plan in order:
            plan.run()  # the first call behind another plan pays for that one
            begin = time.perf_counter()
            for _ in range(calls):
                plan.run()
            plan.seconds.append((time.perf_counter() - begin) / calls)


def _undisturbed(seconds: Sequence[float]) -> float:
    """The median of the fastest third: other processes only slow down."""
    return statistics.median(sorted(seconds)[: (len(seconds) + 2) // 3])
