# SPDX-License-Identifier: Apache-2.0
"""Step 5: training. With grad enabled a forward and a backward program are made; the optimiser works as in eager
mode."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

import npugraph


def train(model: nn.Module, forward: nn.Module, steps: int = 60) -> list[float]:
    """Returns the losses of a small regression. ``forward`` is ``model`` or its compiled form."""
    generator = torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    x = torch.randn(64, 8, generator=generator)
    target = x.sum(-1, keepdim=True).sin()
    losses = []
    for _ in range(steps):
        loss = F.mse_loss(forward(x), target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def main() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
    twin = copy.deepcopy(model)
    losses = train(model, torch.compile(model, backend="npugraph_ex"))
    expected = train(twin, twin)
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=1e-3, atol=1e-5)

    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, as in eager")
    for artifact in npugraph.artifacts():
        print(f"{artifact.name}: {len(artifact.tasks)} tasks, {artifact.counters['replays']} replays")


if __name__ == "__main__":
    main()
