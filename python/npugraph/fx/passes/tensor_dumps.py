# SPDX-License-Identifier: Apache-2.0
"""Writes every tensor of a graph to a file, at every call: option ``dump_tensor_data``.

    y = aten.mul(x, 2)    ->    y = aten.mul(x, 2);  npugraph.dump_tensor(y, ".../mul_device_cpu")

Stage "optimized" is the graph after the FX passes, captured with its dumps; "original" is the graph before them, run
operator by operator. Files are called ``<data_dump_dir>/worldsize<n>_global_rank<r>/<node>_device_<d>_<count>.pt``.
Each holds a tensor of cpu for ``torch.load``. ``count`` starts at 0 in each process. Tensors that the program itself
passes to ``torch_npu.save_npugraph_tensor`` are not dumped.
"""

from __future__ import annotations

import collections
import threading
from pathlib import Path
from typing import Any

import torch
from torch import fx

from npugraph.ranks import folder_name

torch.library.define("npugraph::dump_tensor", "(Tensor tensor, str path) -> ()")

_DUMP = torch.ops.npugraph.dump_tensor.default
torch.fx.node.has_side_effect(_DUMP)

_lock = threading.Lock()
_counts: collections.Counter[str] = collections.Counter()


@torch.library.impl("npugraph::dump_tensor", "CompositeExplicitAutograd")
def dump_tensor(tensor: torch.Tensor, path: str) -> None:
    """Writes the tensor to ``<path>_<count>.pt``."""
    with _lock:
        count = _counts[path]
        _counts[path] += 1
    torch.save(tensor.detach().cpu().clone(), f"{path}_{count}.pt")


@torch.library.register_fake("npugraph::dump_tensor")
def _(tensor: torch.Tensor, path: str) -> None:
    pass


def folder(directory: str) -> Path:
    """The folder for the files of this process. Creates it if it does not exist."""
    path = Path(directory).absolute() / folder_name()
    path.mkdir(exist_ok=True)
    return path


def add_dumps(gm: fx.GraphModule, directory: str) -> None:
    """Adds dumps of inputs and of all results, in place."""
    place = folder(directory)
    last_input = None
    for node in list(gm.graph.nodes):
        if node.op == "placeholder":
            last_input = node
    saved = {tensor for node in gm.graph.nodes if _saves(node) for tensor in node.all_input_nodes}
    for node in list(gm.graph.nodes):
        value = node.meta.get("val")
        if node.op not in ("placeholder", "call_function") or not isinstance(value, torch.Tensor) or node in saved:
            continue
        if value.layout is not torch.strided or node.meta.get("effect_token"):
            continue
        with gm.graph.inserting_after(last_input if node.op == "placeholder" else node):
            dump = gm.graph.call_function(_DUMP, (node, str(place / f"{node.name}_device_{_device(value)}")))
        dump.meta = {key: node.meta[key] for key in ("stack_trace", "nn_module_stack") if key in node.meta}
        dump.meta["val"] = None
    gm.recompile()


def _saves(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.name == "npu::save_npugraph_tensor"


def _device(value: torch.Tensor) -> Any:
    return value.device.type if value.device.index is None else value.device.index
