# SPDX-License-Identifier: Apache-2.0
"""Operators of an extension, which ``TORCH_LIBRARY`` registers: they work in graphs as they are.

Usage: python setup.py build_ext --inplace; python torch_library/example.py
"""

import sys
from pathlib import Path

import torch

import npugraph

FOLDER = Path(__file__).parents[1]
sys.path.append(str(FOLDER))

from four_ways import check, check_all_but_compiled, compiled  # noqa: E402

# The library has the operators, which exist once it is loaded, and the kernels.
npugraph.load_library(next(FOLDER.glob("torch_library_ops*.so")))
ops = torch.ops.extension_ops


def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    total = ops.add_custom(x, y)
    sine, cosine = torch.empty_like(total), torch.empty_like(total)
    ops.sin_cos(total, sine, cosine)
    return sine + cosine


def main() -> None:
    check_all_but_compiled(model)
    check("npugraph_ex", compiled(model))
    (artifact,) = npugraph.artifacts()
    kinds = {task.name: task.kind for task in artifact.tasks}
    print("tasks:", kinds)
    assert (kinds["extension_ops.add_custom"], kinds["extension_ops.sin_cos"]) == ("kernel", "kernel")


if __name__ == "__main__":
    main()
