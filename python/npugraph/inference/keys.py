# SPDX-License-Identifier: Apache-2.0
"""Where the cache of a function is."""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from npugraph.options import CompilerConfig

FILE = "compiled_module"


def path_of(
    method: Any,
    config: CompilerConfig,
    decompositions: Mapping[Any, Callable[..., Any]],
    dynamic: bool,
    folder: str | os.PathLike[str] | None,
    ranks: tuple[int | None, int | None, int | None],
) -> Path:
    """``<root>/<class>_<dynamic or static>_aclgraphcache_<md5>/[<ranks>/]<function>/compiled_module``."""
    model = method.__self__
    root = Path(folder or os.environ.get("TORCHAIR_CACHE_HOME") or ".torchair_cache").absolute()
    key = hashlib.md5(
        repr((repr(model), _settings(config), _functions(decompositions))).encode(), usedforsecurity=False
    )
    name = f"{type(model).__name__}_{'dynamic' if dynamic else 'static'}_aclgraphcache_{key.hexdigest()}"
    return root / name / _rank_folder(*ranks) / method.__func__.__name__ / FILE


def _settings(config: CompilerConfig) -> list[tuple[str, str]]:
    """Options that are not as they are by default, and the replacement rules of the user."""
    chosen = [(name, value) for name, value in config.as_dict().items() if not config.is_default(name)]
    return [(name, _text(value)) for name, value in chosen] + _rules_of_user(config)


def _rules_of_user(config: CompilerConfig) -> list[tuple[str, str]]:
    replacements = sys.modules.get("npugraph.fx.replacements")  # not imported, it holds none
    if replacements is None or not config.pattern_fusion_pass.value:
        return []
    rules = [rule for rule in replacements.registry.rules() if rule.source != replacements.BUILT_IN]
    return [(rule.name, f"{rule.seen} {_digest(rule.source.rpartition(':')[0])}") for rule in rules]


def _digest(file: str) -> str:
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return file


def _functions(decompositions: Mapping[Any, Callable[..., Any]]) -> list[tuple[str, str]]:
    return sorted((str(operator), _text(function)) for operator, function in decompositions.items())


def _text(value: Any) -> str:
    """What an option is; a function is its source."""
    if not callable(value):
        return repr(value)
    try:
        return inspect.getsource(value)
    except (OSError, TypeError):
        code = getattr(value, "__code__", None)
        return repr((code.co_code, code.co_consts, code.co_names)) if code else repr(type(value))


def _rank_folder(global_rank: int | None, tp_rank: int | None, pp_rank: int | None) -> str:
    world = 1
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        world = torch.distributed.get_world_size()
        global_rank = torch.distributed.get_rank() if global_rank is None else global_rank
    if global_rank is None:
        return ""
    inner = "" if tp_rank is None and pp_rank is None else f"_tp_rank{tp_rank or 0}_pp_rank{pp_rank or 0}"
    return f"world{world}global_rank{global_rank}{inner}"
