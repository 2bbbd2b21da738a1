# SPDX-License-Identifier: Apache-2.0
"""Takes one sample of ``pass_time``: python -m benchmarks.samples.pass_time SIDE.

Prints JSON: the seconds that FX passes and graph passes took in a compile that is not the first one of the process, the
number of nodes of the graph, and the error of the compiled function.
"""

from __future__ import annotations

import json
import statistics
import sys

import torch

import npugraph
from npugraph.options import CompilerConfig

SIDES = ("graph passes", "all passes")
LAYERS, WIDTH = 100, 64
PASSES = ("fx", "passes")
COMPILES = 3  # compiles that count; one before them imports what the passes need


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(WIDTH) * 0.1)
        self.shift = torch.nn.Parameter(torch.randn(WIDTH) * 0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(-1, keepdim=True)
        centred = x - mean
        normed = centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5)
        left, right = (normed * self.scale + self.shift).chunk(2, -1)
        return x + torch.cat([left.sigmoid() * right, right.tanh()], -1).reshape(x.shape)


def look(gm: torch.fx.GraphModule, example_inputs: list[object], config: CompilerConfig) -> None:
    """Does nothing. It is a pass of the user, so that all FX passes run."""


@torch.no_grad()
def main(side: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[Layer() for _ in range(LAYERS)])
    x = torch.randn(4, WIDTH)
    options = {"post_grad_custom_post_pass": look} if side == SIDES[1] else {}
    seconds = []
    for _ in range(1 + COMPILES):
        npugraph.reset()
        compiled = torch.compile(model, backend="npugraph_ex", options=options)
        y = compiled(x)
        artifact = npugraph.artifacts()[-1]
        seconds.append(sum(ms for name, ms in artifact.phases if name in PASSES) / 1e3)
    nodes = len(artifact.to_fx("import").graph.nodes)
    error = (y - model(x)).abs().max().item() / y.abs().max().item()
    print(json.dumps({"seconds": statistics.median(seconds[1:]), "nodes": nodes, "error": error}))


if __name__ == "__main__":
    main(*sys.argv[1:])
