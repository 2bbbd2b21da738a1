# SPDX-License-Identifier: Apache-2.0
"""Step 2: one compile serves every size; a new size is a new capture, which takes microseconds."""

import torch
import torch.nn.functional as F

import npugraph


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def main() -> None:
    compiled = torch.compile(attend, backend="npugraph_ex", dynamic=True)
    with torch.no_grad():
        for batch, length in [(2, 8), (2, 9), (5, 32), (2, 8)]:
            query, key, value = (torch.randn(batch, 4, length, 16) for _ in range(3))
            torch.testing.assert_close(compiled(query, key, value), attend(query, key, value))

    (artifact,) = npugraph.artifacts()
    print(f"compiles: {artifact.counters['compiles']}, captures: {artifact.counters['captures']}")
    for instance in artifact.instances:
        print(f"  sizes {instance.symbols}: replayed {instance.replays} times")


if __name__ == "__main__":
    main()
