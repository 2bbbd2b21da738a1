# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs that outlive the process: ``cache_compile``, and ``readable_cache`` to look at their files."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

from npugraph.inference import keys
from npugraph.inference.cached_function import CachedFunction, Mode
from npugraph.inference.readable import readable_cache
from npugraph.options import CompilerConfig, checked_config, parse
from npugraph.stored.key import key_of

__all__ = ["cache_compile", "readable_cache"]


def cache_compile(
    func: Callable[..., Any],
    *,
    dynamic: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
    global_rank: int | None = None,
    tp_rank: int | None = None,
    pp_rank: int | None = None,
    options: Mapping[str, Any] | None = None,
    config: CompilerConfig | None = None,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
) -> CachedFunction:
    """Compiles ``func``, a method of an ``nn.Module``, as ``torch.compile(func, backend="npugraph_ex",
    fullgraph=True)`` does, and keeps its graphs in a file, from which later processes load them instead of compiling.
    It is for inference: calls with gradients on run without them. Options come as ``options`` or as ``config``.

    Files are in ``cache_dir``, or else in ``TORCHAIR_CACHE_HOME``, or else in ``./.torchair_cache``. Each method has a
    file of its own, and so has each rank. A graph is used if everything that Dynamo looked at is as it was: arguments,
    settings of torch, the model's structure, and the text of its source files. Otherwise a new graph is compiled and
    joins the file, with a ``UserWarning``. Raises ``ValueError`` if ``func`` is not the method of a module. A call
    raises ``AssertionError`` if the method draws random numbers.
    """
    if config is not None and options is not None:
        raise ValueError("cache_compile takes options or config, not both")
    config = parse(options) if config is None else checked_config(config, "config")
    decompositions = dict(custom_decompositions or {})

    def backend() -> Callable[..., Any]:
        from npugraph.compilers import get_npu_backend  # imports torch._dynamo

        return get_npu_backend(compiler_config=config, custom_decompositions=decompositions)

    key = functools.partial(key_of, config, decompositions)
    ranks = (global_rank, tp_rank, pp_rank)
    return cached_function(func, dynamic, Mode(config, backend, backend), "aclgraphcache", key, cache_dir, ranks)


def cached_function(
    func: Callable[..., Any],
    dynamic: bool,
    mode: Mode,
    word: str,
    key: Callable[[], str],
    folder: str | os.PathLike[str] | None,
    ranks: tuple[int | None, int | None, int | None],
) -> CachedFunction:
    """Returns ``func`` with graphs of ``mode``. ``word`` and ``key`` are those of ``keys.path_of``. Raises
    ``ValueError`` for what ``cache_compile`` does not take."""
    if not inspect.ismethod(func) or not isinstance(func.__self__, torch.nn.Module):
        raise ValueError(
            f"cache_compile takes a bound method of a torch.nn.Module, such as model.forward, got {_given(func)}"
        )
    for name, rank in zip(("global_rank", "tp_rank", "pp_rank"), ranks, strict=True):
        if rank is not None and (type(rank) is not int or rank < 0):
            raise ValueError(f"cache_compile takes a number of a rank, 0 or more, as {name}, got {rank!r}")
    if not isinstance(dynamic, bool):
        raise ValueError(f"cache_compile takes True or False as dynamic, got {dynamic!r}")
    return CachedFunction(func, dynamic, mode, functools.partial(keys.path_of, func, word, key, dynamic, folder, ranks))


def _given(func: Any) -> str:
    if inspect.ismethod(func):
        return f"{func.__qualname__}, a method of {type(func.__self__).__name__}"
    return f"{getattr(func, '__qualname__', repr(func))} ({type(func).__name__})"
