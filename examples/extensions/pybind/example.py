# SPDX-License-Identifier: Apache-2.0
"""Functions of an extension, which pybind11 binds. Captured graphs record the kernels that they call. ``torch.compile``
cannot look into them, so they need an operator around them to be in a graph.

Usage: python setup.py build_ext --inplace; python pybind/example.py
"""

import sys
from pathlib import Path

import torch

import npugraph

FOLDER = Path(__file__).parents[1]
sys.path.append(str(FOLDER))

import pybind_functions as functions  # noqa: E402
from four_ways import check, check_all_but_compiled, compiled, inputs  # noqa: E402

npugraph.load_library(functions.__file__)  # has the kernels, too


def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    total = functions.add_custom(x, y)
    sine, cosine = torch.empty_like(total), torch.empty_like(total)
    functions.sin_cos(total, sine, cosine)
    return sine + cosine


@torch.library.custom_op("pybind_example::add_custom", mutates_args=())
def add_custom(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return functions.add_custom(x, y)


@add_custom.register_fake
def _(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("pybind_example::sin_cos", mutates_args=("sine", "cosine"))
def sin_cos(x: torch.Tensor, sine: torch.Tensor, cosine: torch.Tensor) -> None:
    functions.sin_cos(x, sine, cosine)


def wrapped_model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    total = add_custom(x, y)
    sine, cosine = torch.empty_like(total), torch.empty_like(total)
    sin_cos(total, sine, cosine)
    return sine + cosine


def main() -> None:
    check_all_but_compiled(model)
    breaks = torch._dynamo.explain(model)(*inputs()).graph_break_count
    assert breaks > 0
    print("graph breaks of the plain functions:", breaks)
    check("npugraph_ex, plain functions", compiled(model, fullgraph=False))

    npugraph.reset()
    check("npugraph_ex, wrapped functions", compiled(wrapped_model))
    (artifact,) = npugraph.artifacts()
    kinds = {task.name: task.kind for task in artifact.tasks}
    print("tasks:", kinds)
    assert (kinds["pybind_example.add_custom"], kinds["pybind_example.sin_cos"]) == ("aten", "aten")


if __name__ == "__main__":
    main()
