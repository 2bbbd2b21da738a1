# SPDX-License-Identifier: Apache-2.0
"""The sides that benchmarks compare, by name."""

from __future__ import annotations

import importlib
import itertools
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

OURS = "npugraph_ex"
DEFAULT_SIDES = ("eager", "dynamo", "inductor", OURS)
QUICK_SIDES = ("eager", "dynamo", OURS)
FLOOR, FLOOR_NEW = FLOORS = "floor", "floor, new result"
FILTERED = f"{OURS} filtered"  # with the guards of arguments alone
DIRECT = f"{OURS} direct"  # saved and loaded, without Dynamo

IMPORTS = {  # what a side loads on first use; cold starts import it before they measure
    "eager": (),
    "dynamo": ("torch._dynamo",),
    "inductor": ("torch._dynamo", "torch._inductor.compile_fx"),
    OURS: ("torch._dynamo", "npugraph.backend"),
    DIRECT: ("npugraph",),
    "openvino": ("openvino",),
}


def prepare(side: str, function: Callable[..., Any], **arguments: Any) -> Callable[..., Any]:
    """Returns ``function`` as ``side`` runs it: ``eager`` as it is, ``dynamo`` with Dynamo's guards alone around it,
    ``floor`` with an empty backend behind the guards, and any other name through the torch.compile backend of that
    name. ``arguments`` are more arguments of torch.compile. After the first call of the result for ``DIRECT``,
    ``without_dynamo`` returns the function to measure."""
    if side == "eager":
        return function
    if side in (FILTERED, DIRECT):
        from npugraph import guards

        # Dynamo takes a backend with other options for another backend, and compiles again.
        options = {"name": side.replace(" ", "_")} | (
            {"guard_filter_fn": guards.arguments_only} if side == FILTERED else {}
        )
        return torch.compile(function, backend=OURS, options=options, **arguments)
    backend = {"dynamo": "eager", FLOOR: empty_backend, FLOOR_NEW: allocating_backend}.get(side, side)
    return torch.compile(function, backend=backend, **arguments)


def without_dynamo(model: torch.nn.Module) -> Callable[..., Any]:
    """Returns our latest Program, which was compiled for ``model``, as a function of the model's arguments."""
    import npugraph

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "program")
        npugraph.artifacts()[-1].save(path)
        return npugraph.load(path, model)


def empty_backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Computes once, in the compile, and returns the same tensors at every call. So all of a call's time is
    Dynamo's."""
    outputs = graph(*inputs)
    return lambda *_: outputs


def allocating_backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Does the same as ``empty_backend``, but the first result is new memory at every call after the first one."""
    first, *others = graph(*inputs)
    results = itertools.chain([first], (torch.empty_like(first) for _ in itertools.count()))
    return lambda *_: (next(results), *others)


def import_all(side: str) -> None:
    """Imports what ``side`` needs. Afterwards it is an error if our backend cannot compile a graph and runs it as it
    is."""
    for module in IMPORTS.get(side, ("torch._dynamo",)):
        importlib.import_module(module)
    if side == OURS:
        warnings.simplefilter("error", importlib.import_module("npugraph").DefectWarning)
