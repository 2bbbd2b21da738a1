# SPDX-License-Identifier: Apache-2.0
"""A function over tensors of npu in eager mode, in graphs that are captured by hand, and compiled."""

from collections.abc import Callable

import torch
import torch_npu  # noqa: F401  (the device npu)

Model = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
SIZE = 10_000


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(SIZE, device="npu"), torch.randn(SIZE, device="npu")


def check(way: str, run: Model) -> None:
    """Compares results of several calls with operators of torch."""
    for _ in range(3):
        x, y = inputs()
        torch.testing.assert_close(run(x, y), torch.sin(x + y) + torch.cos(x + y))
    print(f"{way}: equal")


def captured(model: Model) -> Model:
    """``torch.npu.NPUGraph``: later inputs are copied to where the first ones were."""
    x, y = inputs()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = model(x, y)

    def run(new_x: torch.Tensor, new_y: torch.Tensor) -> torch.Tensor:
        x.copy_(new_x)
        y.copy_(new_y)
        graph.replay()
        return result

    return run


def compiled(model: Model, fullgraph: bool = True) -> Model:
    return torch.compile(model, backend="npugraph_ex", fullgraph=fullgraph)


def check_all_but_compiled(model: Model) -> None:
    check("eager", model)
    check("NPUGraph", captured(model))
    check("make_graphed_callables", torch.npu.make_graphed_callables(model, inputs()))
