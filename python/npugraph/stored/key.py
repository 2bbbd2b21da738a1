# SPDX-License-Identifier: Apache-2.0
"""What compiled graphs depend on beside the graph: the build that made them, and how the user wants graphs compiled. A
cache uses a graph only if all of it is the same."""

from __future__ import annotations

import functools
import hashlib
import inspect
import platform
import struct
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from npugraph import _C
from npugraph.options import CompilerConfig


def build_id(library: Path) -> bytes:
    """The note of the linker, near the beginning of a library, that tells one build from others. Empty without it."""
    with library.open("rb") as file:
        start = file.read(4096)
    return start.partition(struct.pack("=III4s", 4, 20, 3, b"GNU\0"))[2][:20]


# npugraph._ascend counts whether it is loaded or not: Programs of npu have parts that come from its kernels.
_BUILDS = [_C.build_id(), *map(build_id, sorted(Path(_C.__file__).parent.glob("_ascend.*")))]

MADE_WITH = {
    "npugraph": _C.version,
    "build": b"".join(_BUILDS).hex(),
    "torch": torch.__version__,
    "machine": platform.machine(),
}


def key_of(config: CompilerConfig, decompositions: Mapping[Any, Callable[..., Any]]) -> str:
    """Returns a text that stands for what the user sets. Equal texts mean that the options, the replacement rules and
    the functions among them act alike."""
    return repr((_settings(config), _functions(decompositions)))


def _settings(config: CompilerConfig) -> list[tuple[str, str]]:
    """Returns the options that differ from their defaults, and the replacement rules of the user. The handle of a pool
    is left out: it is a number of one process and says nothing about the graph."""
    options = config.as_dict().items()
    chosen = [(name, value) for name, value in options if not config.is_default(name) and name != "use_graph_pool"]
    return [(name, text_of(value)) for name, value in chosen] + _rules_of_user(config)


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
    return sorted((str(operator), text_of(function)) for operator, function in decompositions.items())


def text_of(value: Any, inside: frozenset[int] = frozenset()) -> str:
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
    return repr((_source(kind), [text_of(part, inside) for part in parts]))


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
