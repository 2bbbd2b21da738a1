# SPDX-License-Identifier: Apache-2.0
"""Takes the samples of one case of ``ascend_decoders``: python -m benchmarks.samples.ascend_decoders CASE SAMPLES.

torch_npu must be installed.

Prints JSON: the seconds of each sample by side, and the bytes that a replay of each side copies.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch

import npugraph
from benchmarks.ascend_programs import BlocksOfGe, LatentDecoder, Sizes, build, in_ge_mode
from benchmarks.harness import Side, measure
from benchmarks.sides import OURS

GE = "torchair"
SIDES = ("eager", OURS, GE)
BATCH, LENGTH = 4, 128
SIZES = Sizes(layers=4, hidden=256, heads=8, kv_heads=2, head=32, inner=512, latent=64, vocabulary=1024, places=512)


def compiled(side: str, case: str) -> Callable[..., Any]:
    """The step of a side with its arguments, compiled and called once. Streams and waits of ``torchair.scope`` are
    for GE mode alone, so the other sides go without."""
    model = build(case, SIZES).npu()
    if side == GE and isinstance(model, LatentDecoder):
        model.blocks = BlocksOfGe()
    lengths = torch.full((BATCH,), LENGTH).npu()
    arguments = (torch.arange(BATCH).npu(), lengths, model.caches(BATCH, "npu"), *model.paging(lengths))
    step: Callable[..., Any] = model
    if side != SIDES[0]:
        torch._dynamo.reset()
        step = in_ge_mode(model) if side == GE else torch.compile(model, backend=side, fullgraph=True)
    step(*arguments)
    return lambda: step(*arguments)


@torch.no_grad()
def main(case: str, samples: str) -> None:
    sides, copied, known = [], {}, set()
    for name in SIDES:
        sides.append(Side(name, compiled(name, case)))
        made = set(npugraph.artifacts()) - known
        known |= made
        copied[name] = sum(artifact.memory["copied_bytes_per_replay"] for artifact in made)
    result = measure("ascend_decoders", case, sides, int(samples))
    print(json.dumps({"seconds": {side.name: side.seconds for side in result.sides}, "copied": copied}))


if __name__ == "__main__":
    main(*sys.argv[1:])
