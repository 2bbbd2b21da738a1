# SPDX-License-Identifier: Apache-2.0
"""The sides that benchmarks compare, by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

OURS = "npugraph_ex"
DEFAULT_SIDES = ("eager", "dynamo", "inductor", OURS)
QUICK_SIDES = ("eager", "dynamo", OURS)

IMPORTS = {  # what a side loads on first use, so that cold starts can leave it out
    "eager": (),
    "dynamo": ("torch._dynamo",),
    "inductor": ("torch._dynamo", "torch._inductor.compile_fx"),
    OURS: ("torch._dynamo", "npugraph"),
}


def prepare(side: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` the way ``side`` runs it: ``eager`` as it is, ``dynamo`` with Dynamo's guards alone around it,
    any other name through that torch.compile backend."""
    if side == "eager":
        return function
    return torch.compile(function, backend="eager" if side == "dynamo" else side)


def import_all(side: str) -> None:
    for module in IMPORTS.get(side, ("torch._dynamo",)):
        importlib.import_module(module)
