# SPDX-License-Identifier: Apache-2.0
"""Measures servers of SmolLM2-135M-Instruct with weights of 8 bits under the loads of ``serving``.

vLLM on our device and on its own CPU backend load the same files: int8 with a scale for each row of a weight, and for
each token of the inputs of a product. llama.cpp loads Q8_0, which has a scale for each 32 weights. Both sides of vLLM
multiply int8 by int8; llama.cpp turns the inputs into Q8_0, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import peers, servers, serving, sides
from benchmarks.harness import Request, Result

NAME = "serving_int8"
OTHERS = (peers.VLLM_CPU, peers.LLAMA)
SIDES = (*OTHERS, sides.OURS)
USERS, QUICK_USERS = (1, 16), (1,)


def run(request: Request) -> Iterator[Result]:
    yield from serving.compare(request, NAME, servers.INT8, QUICK_USERS if request.wants_few else USERS, SIDES)
