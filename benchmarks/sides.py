# SPDX-License-Identifier: Apache-2.0
"""The sides that benchmarks compare, by name."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

OURS = "npugraph_ex"
DEFAULT_SIDES = ("eager", "dynamo", "inductor", OURS)
QUICK_SIDES = ("eager", "dynamo", OURS)
FLOOR = "floor"

IMPORTS = {  # what a side loads on first use, so that cold starts can leave it out
    "eager": (),
    "dynamo": ("torch._dynamo",),
    "inductor": ("torch._dynamo", "torch._inductor.compile_fx"),
    OURS: ("torch._dynamo", "npugraph.backend"),
    "openvino": ("openvino",),
}


def prepare(side: str, function: Callable[..., Any], **arguments: Any) -> Callable[..., Any]:
    """``function`` the way ``side`` runs it: ``eager`` as it is, ``dynamo`` with Dynamo's guards alone around it,
    ``floor`` with nothing behind them, any other name through that torch.compile backend. ``arguments`` are further
    ones of torch.compile."""
    if side == "eager":
        return function
    backend = {"dynamo": "eager", FLOOR: empty_backend}.get(side, side)
    return torch.compile(function, backend=backend, **arguments)


def empty_backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Computes once, now, and returns the same tensors at every call: what is left of the time is Dynamo's."""
    outputs = graph(*inputs)
    return lambda *_: outputs


def import_all(side: str) -> None:
    """What ``side`` needs. From then on it is an error when our backend cannot compile a graph and runs it as it is."""
    for module in IMPORTS.get(side, ("torch._dynamo",)):
        importlib.import_module(module)
    if side == OURS:
        warnings.simplefilter("error", importlib.import_module("npugraph").DefectWarning)
