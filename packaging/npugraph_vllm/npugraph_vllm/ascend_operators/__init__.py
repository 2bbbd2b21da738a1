# SPDX-License-Identifier: Apache-2.0
"""The operators of namespace ``_C_ascend``, one module for each family, mostly as compositions of operators of npu.

An operator that has no composition here is defined all the same, and a call of it says that it is missing.
"""

from npugraph_vllm.ascend_operators import (
    activations,
    attention,
    caches,
    device,
    latent,
    lora,
    mixtures,
    norms,
    products,
    rotary,
    streams,
)
from npugraph_vllm.ascend_operators.absent import define_absent

__all__ = [
    "activations",
    "attention",
    "caches",
    "device",
    "latent",
    "lora",
    "mixtures",
    "norms",
    "products",
    "rotary",
    "streams",
]

define_absent()
