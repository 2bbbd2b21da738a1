# SPDX-License-Identifier: Apache-2.0
"""The path of the cache of a function."""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import sys
import types
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
    """Returns ``<root>/<class>_<dynamic or static>_aclgraphcache_<md5>/[<ranks>/]<function>/compiled_module``."""
    model = method.__self__
    root = Path(folder or os.environ.get("TORCHAIR_CACHE_HOME") or ".torchair_cache").absolute()
    key = hashlib.md5(
        repr((repr(model), _settings(config), _functions(decompositions))).encode(), usedforsecurity=False
    )
    name = f"{type(model).__name__}_{'dynamic' if dynamic else 'static'}_aclgraphcache_{key.hexdigest()}"
    return root / name / _rank_folder(*ranks) / method.__func__.__name__ / FILE


def _settings(config: CompilerConfig) -> list[tuple[str, str]]:
    """Returns the options that differ from their defaults, and the replacement rules of the user. The handle of a pool
    is left out: it is a number of one process and says nothing about the graph."""
    options = config.as_dict().items()
    chosen = [(name, value) for name, value in options if not config.is_default(name) and name != "use_graph_pool"]
    return [(name, _text(value)) for name, value in chosen] + _rules_of_user(config)


def _rules_of_user(config: CompilerConfig) -> list[tuple[str, str]]:
    replacements = sys.modules.get("npugraph.fx.passes.replacements")  # it holds no rules if it is not imported
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


def _text(value: Any, inside: frozenset[int] = frozenset()) -> str:
    """Returns a text that stands for the value of an option. A function is described by its source, the digest of its
    file, its defaults, and the values that it closes over. A callable object is described by its class and its
    attributes. ``inside`` has the ids of the objects that contain this one."""
    if id(value) in inside:
        return "itself"
    if isinstance(value, type):
        return _source(value)
    inside |= {id(value)}
    if isinstance(value, functools.partial):
        parts = [value.func, *value.args, *value.keywords.items()]
    elif isinstance(value, types.MethodType):
        parts = [value.__func__, value.__self__]
    elif isinstance(value, types.FunctionType):
        parts = [*map(_content, value.__closure__ or ()), value.__defaults__, value.__kwdefaults__]
    elif isinstance(value, (tuple, list)):
        parts = list(value)
    elif callable(value) and type(value).__module__ != "torch._ops" and hasattr(value, "__dict__"):
        parts = list(vars(value).items())
    else:
        return repr(value)
    kind = value if isinstance(value, types.FunctionType) else type(value)
    return repr((_source(kind), [_text(part, inside) for part in parts]))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet filled
        return None


def _source(value: Any) -> str:
    """Returns the source of a function or class, with the digest of its file."""
    try:
        return f"{inspect.getsource(value)} in {_digest(inspect.getsourcefile(value) or '')}"
    except (OSError, TypeError):
        code = getattr(value, "__code__", None)
        return repr((code.co_code, code.co_consts, code.co_names)) if code else repr(value)


def _rank_folder(global_rank: int | None, tp_rank: int | None, pp_rank: int | None) -> str:
    world = 1
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        world = torch.distributed.get_world_size()
        global_rank = torch.distributed.get_rank() if global_rank is None else global_rank
    if global_rank is None:
        return ""
    inner = "" if tp_rank is None and pp_rank is None else f"_tp_rank{tp_rank or 0}_pp_rank{pp_rank or 0}"
    return f"world{world}global_rank{global_rank}{inner}"
