# SPDX-License-Identifier: Apache-2.0
"""Where an export writes what: the model, a view of its graph, and weights that are too large for the model."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import torch

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
