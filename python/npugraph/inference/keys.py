# SPDX-License-Identifier: Apache-2.0
"""The path of the cache of a function."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from npugraph.options import CompilerConfig
from npugraph.stored.key import key_of

FILE = "compiled_module"


def path_of(
    method: Any,
    config: CompilerConfig,
    decompositions: Mapping[Any, Callable[..., Any]],
    dynamic: bool,
    folder: str | os.PathLike[str] | None,
    ranks: tuple[int | None, int | None, int | None],
) -> Path:
    """Returns ``<root>/<class>_<dynamic or static>_aclgraphcache_<md5>/[<ranks>/]<function>/compiled_module``."""
    model = method.__self__
    root = Path(folder or os.environ.get("TORCHAIR_CACHE_HOME") or ".torchair_cache").absolute()
    key = hashlib.md5(repr((repr(model), key_of(config, decompositions))).encode(), usedforsecurity=False)
    name = f"{type(model).__name__}_{'dynamic' if dynamic else 'static'}_aclgraphcache_{key.hexdigest()}"
    return root / name / _rank_folder(*ranks) / method.__func__.__name__ / FILE


def _rank_folder(global_rank: int | None, tp_rank: int | None, pp_rank: int | None) -> str:
    world = 1
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        world = torch.distributed.get_world_size()
        global_rank = torch.distributed.get_rank() if global_rank is None else global_rank
    if global_rank is None:
        return ""
    inner = "" if tp_rank is None and pp_rank is None else f"_tp_rank{tp_rank or 0}_pp_rank{pp_rank or 0}"
    return f"world{world}global_rank{global_rank}{inner}"
