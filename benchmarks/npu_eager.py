# SPDX-License-Identifier: Apache-2.0
"""What the npu device costs in eager mode: the same call on tensors of npu and of cpu, one thread.

torch_npu is imported when this one runs, last of all: where it is there, transformers goes other ways.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from benchmarks.harness import Request, Result, Side, measure
from benchmarks.processes import ROOT

NAME = "npu_eager"
UNBOXED, BOXED, LISTS, TRAINING = ", unboxed", ", boxed", ", 20 tensors", "512 wide, forward and backward"
WIDTH, ROWS = 512, 64


def cases(device: str) -> dict[str, Callable[[], Any]]:
    """The calls, by name, on tensors of ``device``."""
    torch.manual_seed(0)
    x, y = torch.randn(64, 64, device=device), torch.randn(64, 64, device=device)
    small, index = torch.rand(8, device=device), torch.arange(8, device=device)
    many = [torch.zeros(64, 64, device=device) for _ in range(20)]
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH)).to(
        device
    )
    rows = torch.randn(ROWS, WIDTH, device=device)

    @torch.enable_grad()
    def train() -> None:
        model(rows).square().mean().backward()
        model.zero_grad()

    return {
        f"x + y{UNBOXED}": lambda: x + y,
        f"x.add_(y){UNBOXED}": lambda: x.add_(y),
        f"relu{UNBOXED}": lambda: torch.relu(small),
        f"x[index]{UNBOXED}": lambda: x[index],
        f"x.mm(y){UNBOXED}": lambda: x.mm(y),
        f"erfcx{BOXED}": lambda: torch.special.erfcx(small),
        f"cummax{BOXED}": lambda: torch.cummax(small, 0),
        f"foreach_add_{LISTS}": lambda: torch._foreach_add_(many, 1.0),
        TRAINING: train,
    }


def run(request: Request) -> Iterator[Result]:
    sys.path.append(str(ROOT / "packaging/torch_npu"))
    importlib.import_module("torch_npu")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        on = {device: cases(device) for device in ("cpu", "npu")}
        for case in on["cpu"]:
            if request.wants(NAME, case):
                sides = [Side(device, calls[case]) for device, calls in on.items()]
                result = measure(NAME, case, sides, request.samples)
                result.baseline = "cpu"
                yield result
    finally:
        torch.set_num_threads(threads)
