# SPDX-License-Identifier: Apache-2.0
"""The files of an exported graph, and its weights: inputs that become constants, in the model or in files beside it."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from npugraph.ge import attr, const, data_types, proto
from npugraph.ge.fx.graph import KIND
from npugraph.ge.graph import GeGraph
from npugraph.ge.normalise import INPUTS_OF_GRAPH
from npugraph.log import logger

VIEW = "dynamo.pbtxt"


@dataclasses.dataclass(frozen=True)
class ExportFiles:
    """``air`` is the model. ``folder`` has the view and weights. It is the directory of the model, or one below it."""

    air: Path
    folder: Path

    @property
    def view(self) -> Path:
        return self.folder / VIEW

    def weight(self, name: str) -> Path:
        """The file of a weight, by its name in the model."""
        return checked(self.folder / name.replace(".", "_").replace(os.sep, "_"))

    def from_model(self, path: Path) -> str:
        """A file as the model names it: relative to its own directory."""
        return path.relative_to(self.air.parent).as_posix()


def files_of(export_path: str | os.PathLike[str], export_name: str) -> ExportFiles:
    """The files of this process, whose directories it makes. A process of several ranks has its rank in their names.

    Raises ``ValueError`` for a name that is no name of a file, and if the directory or a file in it is a symbolic
    link, because an export would then overwrite what the link names."""
    if not isinstance(export_name, str) or not export_name or os.sep in export_name:
        raise ValueError(f"export_name is the name of a file without its directory, got {export_name!r}")
    root, rank = checked(Path(export_path)), _rank()
    folder = root if rank is None else checked(root / f"rank_{rank}")
    files = ExportFiles(checked(root / f"{export_name}{'' if rank is None else rank}.air"), folder)
    checked(files.view)
    folder.mkdir(parents=True, exist_ok=True)
    return files


def checked(path: Path) -> Path:
    """The path, if it is no symbolic link; else raises ``ValueError``."""
    if path.is_symlink():
        refusal = f"dynamo_export writes to no symbolic link, got {str(path)!r}, which names {os.readlink(path)!r}"
        logger.error(refusal)
        raise ValueError(refusal)
    return path


def _rank() -> int | None:
    """The rank of this process; None if there is no other one."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
        return None
    return distributed.get_rank()


# Protobuf reads messages of less than 2 GiB. The rest is room for what readers add to a graph.
MOST_INLINE_BYTES = 2**31 - 200 * 2**20


@dataclasses.dataclass(frozen=True)
class Weight:
    """A tensor of the model that the graph reads. ``op`` is its ``Data``, and then its constant. ``values`` is dense
    and in host memory."""

    op: Any
    name: str
    values: torch.Tensor

    def inline(self) -> None:
        """Makes it a ``Const`` with its elements."""
        self._become("Const")
        attr.Tensor(const.tensor_def(self.values)).write(self.op.attr["value"])

    def refer_to(self, path: str) -> None:
        """Makes it a ``FileConstant`` whose elements are the bytes of a file."""
        self._become("FileConstant")
        attr.ListInt(list(self.values.shape)).write(self.op.attr["shape"])
        attr.DataType(data_types.of_torch(self.values.dtype)).write(self.op.attr["dtype"])
        attr.Str(path).write(self.op.attr["file_path"])

    def write_to(self, file: Any) -> None:
        file.write(memoryview(self.values.reshape(-1).view(torch.uint8).numpy()))

    def _become(self, op_type: str) -> None:
        desc = proto.TensorDescriptor(name="y", layout="ND", dtype=self.op.output_desc[0].dtype)
        desc.shape.SetInParent()
        desc.shape.dim.extend(self.values.shape)
        self.op.type = op_type
        for name in ("index", KIND):
            if name in self.op.attr:
                del self.op.attr[name]
        del self.op.input_desc[:]
        self.op.output_desc[0].CopyFrom(desc)


def weights_of(graph: GeGraph, tensors: Mapping[int, tuple[str, torch.Tensor]]) -> list[Weight]:
    """The inputs of the graph that are weights: those that it does not write, among ``tensors``, which are names and
    tensors of the model by the index of their input."""
    found = [op for op in graph.op if op.type == "Data" and op.attr["index"].i in tensors]
    names = _unique([tensors[op.attr["index"].i][0] for op in found])
    values = [const.values_of(tensors[op.attr["index"].i][1]) for op in found]
    return [Weight(*entry) for entry in zip(found, names, values, strict=True)]


def make_constants(graph: GeGraph, weights: Sequence[Weight], files: ExportFiles) -> bool:
    """Turns inputs into constants, and numbers the other inputs again, those that the graph writes last. Returns
    whether the weights are in the graph; if it would be too large, they are written to files."""
    bytes_of_weights = sum(weight.values.nbytes for weight in weights)
    is_inline = graph.model.ByteSize() + bytes_of_weights < MOST_INLINE_BYTES
    for weight in weights:
        if is_inline:
            weight.inline()
            continue
        path = files.weight(weight.name)
        with open(path, "wb") as file:
            weight.write_to(file)
        weight.refer_to(files.from_model(path))
    inputs = [op for op in graph.op if op.type in INPUTS_OF_GRAPH]
    inputs.sort(key=lambda op: (op.type == "RefData", op.attr["index"].i))
    for index, op in enumerate(inputs):
        op.attr["index"].i = index
    return is_inline


def _unique(names: Sequence[str]) -> list[str]:
    """The names, of which later ones get a number if they would be the same as names of files."""
    taken: set[str] = set()
    unique = []
    for name in names:
        tried, number = name, 1
        while tried.replace(".", "_") in taken:
            tried, number = f"{name}_{number}", number + 1
        taken.add(tried.replace(".", "_"))
        unique.append(tried)
    return unique
