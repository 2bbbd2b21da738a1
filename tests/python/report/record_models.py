# SPDX-License-Identifier: Apache-2.0
"""Records the runs of ``test_verdict`` again, of models with a known bound. The machine must do nothing else:

python -m tests.python.report.record_models
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_reduce

import npugraph
from npugraph.report.facts import facts

RECORDED = Path(__file__).with_name("recorded")
# The facts that verdict() reads.
OF_A_TASK = (
    *("name", "kind", "stream", "waits", "reason", "type"),
    *("bytes_read", "bytes_written", "operations", "nanoseconds", "least_nanoseconds"),
)
OF_A_RUN = ("nanoseconds", "tasks")
CALLS = 12
LATE = 0.02  # seconds
Run = Callable[..., Any]


def memory() -> Run:
    return called_often(lambda x, y: x * 2 + y, torch.randn(16 << 20), torch.randn(16 << 20))


def arithmetic() -> Run:
    return called_often(products(4, 1024), torch.randn(1024, 1024))


def host() -> Run:
    return called_often(products(3, 8), torch.randn(2, 8))


def waiting() -> Run:
    """Returns a run in which the other process comes late to each collective."""
    environment = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29531"}
    other = subprocess.Popen([sys.executable, "-m", __spec__.name, "late"], env=environment | {"RANK": "1"})
    os.environ.update(environment | {"RANK": "0"})
    run = exchange(late=0)
    if other.wait() != 0:
        raise RuntimeError("the other process failed")
    return run


def exchange(late: float) -> Run:
    first, second = nn.Linear(64, 64), nn.Linear(64, 64)
    dist.init_process_group("gloo")
    run = called_often(
        lambda x: second(all_reduce(first(x), "sum", dist.group.WORLD).relu()), torch.randn(8, 64), late=late
    )
    dist.destroy_process_group()
    return run


def products(count: int, width: int) -> nn.Module:
    return nn.Sequential(*[layer for _ in range(count) for layer in (nn.Linear(width, width), nn.ReLU())])


def called_often(fn: Run, *inputs: torch.Tensor, late: float = 0) -> Run:
    run = torch.compile(fn, backend="npugraph_ex", fullgraph=True)
    for _ in range(CALLS):
        time.sleep(late)
        run(*inputs)
    return run


MODELS = {model.__name__: model for model in (memory, arithmetic, host, waiting)}


def main() -> None:
    with torch.no_grad():
        if sys.argv[1:] == ["late"]:
            exchange(LATE)
            return
        for name, run in MODELS.items():
            npugraph.reset()
            torch.manual_seed(0)
            kept = run()  # the artifact lives as long as this function
            (artifact,) = npugraph.artifacts()
            write(RECORDED / f"{name}.json", facts(artifact))
            del kept


def write(path: Path, shown: dict[str, Any]) -> None:
    recorded = {
        "machine": shown["machine"],
        "runs": [{key: run[key] for key in OF_A_RUN} for run in shown["runs"]],
        "tasks": [{key: task[key] for key in OF_A_TASK} for task in shown["tasks"]],
    }
    path.write_text(json.dumps(recorded, indent=1) + "\n")
    print(f"{path.name}: {shown['verdict']['sentence']}")


if __name__ == "__main__":
    main()
