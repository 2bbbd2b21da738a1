# SPDX-License-Identifier: Apache-2.0
"""Step 4: look inside. Print the graph after any pass as text and as runnable FX, the planned program, and a report."""

import torch

import npugraph


def update(state: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    state.mul_(0.9)
    state[:, :4] += x
    return torch.softmax(state, -1).sum(0)


@torch.no_grad()
def main() -> None:
    compiled = torch.compile(update, backend="npugraph_ex")
    for _ in range(2):  # the second call with the same sizes is the one that is timed
        compiled(torch.zeros(3, 8), torch.randn(3, 4))
    (artifact,) = npugraph.artifacts()

    print("stages:", ", ".join(artifact.stages))
    print(f"\nthe graph as it was imported:\n{artifact.graph('import')}")
    print(f"\nthe graph after the last pass:\n{artifact.graph()}")
    print(f"\nthe same as FX:\n{artifact.to_fx().code}")
    print(f"\nthe planned program:\n{artifact.program()}")
    print(f"\nmemory: {dict(artifact.memory)}")
    print(f"\n{artifact.explain()}")


if __name__ == "__main__":
    main()
