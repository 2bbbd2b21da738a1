# SPDX-License-Identifier: Apache-2.0
"""``debug.data_dump``: an FX graph runs operator by operator, and the tensors of its calls are written to files."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import fx
from torch.utils import _pytree as pytree

from npugraph.ge.dumps.files import folder

Filter = Callable[[fx.Node], fx.Node | None]


class DumpingInterpreter(fx.Interpreter):
    """Runs a graph once and writes ``<node>-<operator>.INPUT.<i>.<time>.npy`` before each call that ``wanted`` returns
    a node for, and ``...OUTPUT...`` after it. ``i`` counts the tensors of the call. The time is in microseconds."""

    def __init__(self, gm: fx.GraphModule, directory: str, wanted: Filter | None) -> None:
        super().__init__(gm)
        self._folder, self._wanted = folder(directory), wanted

    def run_node(self, n: fx.Node) -> Any:
        if n.op != "call_function" or (self._wanted is not None and self._wanted(n) is None):
            return super().run_node(n)
        self._write(n, "INPUT", self.fetch_args_kwargs_from_env(n))
        result = super().run_node(n)
        self._write(n, "OUTPUT", result)
        return result

    def _write(self, node: fx.Node, side: str, values: Any) -> None:
        tensors = [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]
        stamp = time.time_ns() // 1000
        for index, tensor in enumerate(tensors):
            _save(self._folder / f"{node.name}-{node.target}.{side}.{index}.{stamp}.npy", tensor)


def _save(path: Path, tensor: torch.Tensor) -> None:
    """Types that NumPy does not have are written as float32 or complex64."""
    known = tensor.detach().cpu().resolve_conj().resolve_neg()
    try:
        array = known.numpy()
    except TypeError:
        array = known.to(torch.complex64 if known.is_complex() else torch.float32).numpy()
    np.save(path, array)
