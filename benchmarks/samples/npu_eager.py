# SPDX-License-Identifier: Apache-2.0
"""Takes the samples of one case of ``npu_eager``: python -m benchmarks.samples.npu_eager CASE SAMPLES.

torch_npu must be installed.

Prints JSON: the seconds of each sample by side.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.harness import Side, measure

UNBOXED, BOXED, LISTS, TRAINING = ", unboxed", ", boxed", ", 20 tensors", "512 wide, forward and backward"
SIDES = ("cpu", "npu")
WIDTH, ROWS = 512, 64
# These sizes are so small that the addresses of tensors do not matter. Kernels are slower on operands whose addresses
# differ by about a multiple of 4 KiB, which happens to larger tensors by chance.
SQUARE, SMALL = (8, 8), (8,)

Call = Callable[[], Any]


def on_tensors(operator: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[str], Call]:
    """Returns a function that makes tensors of these shapes on a device and returns the call of ``operator`` on
    them."""

    def on(device: str) -> Call:
        tensors = [torch.rand(shape, device=device) for shape in shapes]
        return lambda: operator(*tensors)

    return on


def lookup(device: str) -> Call:
    x, index = torch.rand(SQUARE, device=device), torch.arange(8, device=device)
    return lambda: x[index]


def lists(device: str) -> Call:
    many = [torch.zeros(64, 64, device=device) for _ in range(20)]
    return lambda: torch._foreach_add_(many, 1.0)


def training(device: str) -> Call:
    layers = torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH)
    model = torch.nn.Sequential(*layers).to(device)
    rows = torch.randn(ROWS, WIDTH, device=device)

    @torch.enable_grad()
    def train() -> None:
        model(rows).square().mean().backward()
        model.zero_grad()

    return train


CASES: dict[str, Callable[[str], Call]] = {
    f"x + y{UNBOXED}": on_tensors(torch.add, SQUARE, SQUARE),
    f"x.add_(y){UNBOXED}": on_tensors(torch.Tensor.add_, SQUARE, SQUARE),
    f"relu{UNBOXED}": on_tensors(torch.relu, SMALL),
    f"x[index]{UNBOXED}": lookup,
    f"x.mm(y){UNBOXED}": on_tensors(torch.mm, SQUARE, SQUARE),
    f"erfcx{BOXED}": on_tensors(torch.special.erfcx, SMALL),
    f"cummax{BOXED}": on_tensors(lambda x: torch.cummax(x, 0), SMALL),
    f"foreach_add_{LISTS}": lists,
    TRAINING: training,
}


@torch.no_grad()
def main(case: str, samples: str) -> None:
    torch.set_num_threads(1)
    sides = []
    for device in SIDES:
        torch.manual_seed(0)
        sides.append(Side(device, CASES[case](device)))
    result = measure("npu_eager", case, sides, int(samples))
    print(json.dumps({side.name: side.seconds for side in result.sides}))


if __name__ == "__main__":
    main(*sys.argv[1:])
