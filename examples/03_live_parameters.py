# SPDX-License-Identifier: Apache-2.0
"""Step 3: parameters stay live. If something changes them between calls, the next call sees it, without a new
compile."""

import torch
from torch import nn

import npugraph


def check(what: str, model: nn.Module, compiled: nn.Module, x: torch.Tensor) -> None:
    torch.testing.assert_close(compiled(x), model(x))
    print(f"{what}: the compiled model follows")


@torch.no_grad()
def main() -> None:
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)).eval()
    compiled = torch.compile(model, backend="npugraph_ex")
    x = torch.randn(4, 32)
    check("first call", model, compiled, x)

    other = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))
    model.load_state_dict(other.state_dict())
    check("load_state_dict", model, compiled, x)

    low_rank = torch.randn(64, 2) @ torch.randn(2, 32)
    model[0].weight += 0.1 * low_rank
    check("a merged LoRA", model, compiled, x)

    (artifact,) = npugraph.artifacts()
    model[2].weight.data.copy_(torch.randn(8, 64))
    artifact.refresh()  # torch does not count writes through .data
    check("a write through .data and refresh()", model, compiled, x)
    print(f"compiles: {artifact.counters['compiles']}")


if __name__ == "__main__":
    main()
