# SPDX-License-Identifier: Apache-2.0
"""The path of the cache of a function."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

FILE = "compiled_module"


def path_of(
    method: Any,
    word: str,
    key: Callable[[], str],
    dynamic: bool,
    folder: str | os.PathLike[str] | None,
    ranks: tuple[int | None, int | None, int | None],
) -> Path:
    """Returns ``<root>/<class>_<dynamic or static>_[<word>_]<md5>/[<ranks>/]<function>/compiled_module``. ``key`` says
    what the user sets."""
    model = method.__self__
    root = Path(folder or os.environ.get("TORCHAIR_CACHE_HOME") or ".torchair_cache").absolute()
    digest = hashlib.md5(repr((repr(model), key())).encode(), usedforsecurity=False).hexdigest()
    parts = [type(model).__name__, "dynamic" if dynamic else "static", word, digest]
    return root / "_".join(filter(None, parts)) / _rank_folder(*ranks) / method.__func__.__name__ / FILE


def _rank_folder(global_rank: int | None, tp_rank: int | None, pp_rank: int | None) -> str:
    world = 1
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        world = torch.distributed.get_world_size()
        global_rank = torch.distributed.get_rank() if global_rank is None else global_rank
    if global_rank is None:
        return ""
    inner = "" if tp_rank is None and pp_rank is None else f"_tp_rank{tp_rank or 0}_pp_rank{pp_rank or 0}"
    return f"world{world}global_rank{global_rank}{inner}"
