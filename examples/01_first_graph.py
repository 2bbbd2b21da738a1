# SPDX-License-Identifier: Apache-2.0
"""Step 1: compile a function, call it, and see that it became one captured program."""

import torch

import npugraph


def normalise(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return torch.relu(scaled * weight)


def main() -> None:
    compiled = torch.compile(normalise, backend="npugraph_ex", fullgraph=True)
    x, weight = torch.randn(4, 16), torch.rand(16)
    with torch.no_grad():
        for _ in range(3):
            result = compiled(x, weight)
    torch.testing.assert_close(result, normalise(x, weight))

    (artifact,) = npugraph.artifacts()
    print(f"{artifact.name}: {len(artifact.tasks)} tasks")
    for task in artifact.tasks:
        print(f"  {task.kind:<8} {task.name:<24} {task.source}")
    counters = artifact.counters
    print(f"captured {counters['captures']} time, replayed {counters['replays']} times")


if __name__ == "__main__":
    main()
