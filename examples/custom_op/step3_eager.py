# SPDX-License-Identifier: Apache-2.0
"""Step 3: the operators in eager mode. ``load_library`` defines them in torch and gives them the kernels of step 2.

Usage: bash build.sh; python step3_eager.py
"""

import os
from pathlib import Path

import torch

import npugraph

BUILD = Path(os.environ.get("TUTORIAL_BUILD", Path(__file__).parent / "build"))
npugraph.load_library(BUILD / "libtutorial_ops.so")


def main() -> None:
    x, y = torch.ones(4), torch.arange(4.0)
    torch.ops.tutorial.scaled_add_(x, y, 2.0)
    assert x.tolist() == [1, 3, 5, 7]
    print("eager, in place:", x.tolist())
    try:
        torch.ops.tutorial.scaled_add(x, y, 2.0)
    except NotImplementedError as error:
        print("the functional operator makes a tensor, and nobody knows its size yet:", error)


if __name__ == "__main__":
    main()
