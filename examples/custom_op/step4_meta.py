# SPDX-License-Identifier: Apache-2.0
"""Step 4: the Meta function. It says sizes, type and strides of each result, and computes nothing. Compilers call it
while they trace, and eager calls ask it what to allocate. An operator that only writes its arguments needs none.

Usage: bash build.sh; python step4_meta.py
"""

import step3_eager  # noqa: F401  (defines the operators)
import torch

import npugraph

ops = torch.ops.tutorial


@torch.library.register_fake("tutorial::scaled_add")
def scaled_add(x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.empty_like(x)


def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return ops.scaled_add(x * 2, y, 0.5) + 1


@torch.no_grad()
def main() -> None:
    x, y = torch.randn(1000), torch.randn(1000)
    expected = x * 2 + 0.5 * y + 1
    torch.testing.assert_close(fn(x, y), expected)
    for backend in ("aot_eager", "inductor", "npugraph_ex"):
        torch.testing.assert_close(torch.compile(fn, backend=backend)(x, y), expected)
        print(f"{backend}: the same result")
    (artifact,) = npugraph.artifacts()
    print("tasks of npugraph_ex:", ", ".join(f"{task.name} ({task.kind})" for task in artifact.tasks))
    assert "tutorial.scaled_add" in [task.name for task in artifact.tasks]


if __name__ == "__main__":
    main()
