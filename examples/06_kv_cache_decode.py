# SPDX-License-Identifier: Apache-2.0
"""Step 6: a decode step that writes into its key/value cache in place: not a byte of the cache is copied."""

import torch
import torch.nn.functional as F
from torch import nn

import npugraph

BATCH, HEADS, LENGTH, SIZE = 1, 4, 64, 16
WIDTH = HEADS * SIZE


class DecodeStep(nn.Module):
    """One attention layer for one new token, with caches [batch, heads, length, size] of the earlier tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.project_in = nn.Linear(WIDTH, 3 * WIDTH)
        self.project_out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        heads = self.project_in(x).view(BATCH, 1, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)
        query, key, value = heads.unbind(0)
        keys.index_copy_(2, at, key)
        values.index_copy_(2, at, value)
        seen = torch.arange(LENGTH) <= at
        attended = F.scaled_dot_product_attention(query, keys, values, attn_mask=seen[None, None, None])
        return self.project_out(attended.transpose(1, 2).reshape(BATCH, 1, WIDTH))


@torch.no_grad()
def main() -> None:
    torch.manual_seed(0)
    step = DecodeStep().eval()
    compiled = torch.compile(step, backend="npugraph_ex")
    ours = [torch.zeros(BATCH, HEADS, LENGTH, SIZE) for _ in range(2)]
    expected = [torch.zeros_like(cache) for cache in ours]
    for position in range(32):
        x, at = torch.randn(BATCH, 1, WIDTH), torch.tensor([position])
        torch.testing.assert_close(compiled(x, *ours, at), step(x, *expected, at))
    torch.testing.assert_close(ours, expected)

    (artifact,) = npugraph.artifacts()
    print(f"32 steps, {artifact.counters['captures']} capture")
    print(f"copied bytes per replay: {artifact.memory['copied_bytes_per_replay']}")
    assert artifact.memory["copied_bytes_per_replay"] == 0


if __name__ == "__main__":
    main()
