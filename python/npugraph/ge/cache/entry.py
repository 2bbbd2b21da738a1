# SPDX-License-Identifier: Apache-2.0
"""``torchair.inference.cache_compile``: the cache of ``npugraph.inference`` for the modes of torchair."""

from __future__ import annotations

import copy
import functools
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from npugraph import inference
from npugraph.ge.config import CompilerConfig, npugraph_options, warn_of_irrelevant
from npugraph.ge.config.row import GE
from npugraph.ge.config.tree import holders
from npugraph.inference import cached_function
from npugraph.inference.cached_function import CachedFunction, Mode
from npugraph.options import parse
from npugraph.stored.key import key_of, text_of

_BACKENDS = ("torchair", "npugraph_ex")


def cache_compile(
    func: Callable[..., Any],
    *,
    config: Any = None,
    backend: str | None = None,
    dynamic: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
    global_rank: int | None = None,
    tp_rank: int | None = None,
    pp_rank: int | None = None,
    custom_decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    ge_cache: bool = False,
) -> CachedFunction:
    """Does what ``npugraph_ex.inference.cache_compile`` does, for ``config``, a ``torchair.CompilerConfig``. With
    ``backend="npugraph_ex"`` it is that function, and ``config`` is one of ``npugraph_ex``.

    In mode max-autotune, the file holds what the engine compiled, with or without ``ge_cache``: later processes compile
    nothing. ``ge_cache`` adds a word to the name of the folder. A graph with eager parts is not cached, and a
    ``UserWarning`` says so. Raises ``ValueError`` for a configuration of another backend, and for ``ge_cache`` in
    another mode."""
    if backend not in (None, *_BACKENDS):
        raise ValueError(f"cache_compile takes {' or '.join(map(repr, _BACKENDS))} as backend, got {backend!r}")
    if not isinstance(ge_cache, bool):
        raise ValueError(f"cache_compile takes True or False as ge_cache, got {ge_cache!r}")
    of_ex = backend == _BACKENDS[1]
    kind = inference.CompilerConfig if of_ex else CompilerConfig
    if config is not None and not isinstance(config, kind):
        raise ValueError(
            f"cache_compile with backend {backend or _BACKENDS[0]!r} takes a CompilerConfig of that backend as config, "
            f"got {config!r} ({type(config).__module__}.{type(config).__name__})"
        )
    config = CompilerConfig() if config is None and not of_ex else copy.copy(config)
    is_ge = not of_ex and config.mode.value == GE and not config.debug.run_eagerly.value
    if ge_cache and not is_ge:
        eagerly = " with debug.run_eagerly" if not of_ex and config.debug.run_eagerly.value else ""
        mode = f"backend {backend!r}" if of_ex else f"mode {config.mode.value!r}{eagerly}"
        raise ValueError(f"cache_compile takes ge_cache for graphs of the graph engine, and {mode} has none")
    decompositions = dict(custom_decompositions or {})
    ranks = (global_rank, tp_rank, pp_rank)
    if of_ex:
        places = dict(zip(("global_rank", "tp_rank", "pp_rank"), ranks, strict=True))
        return inference.cache_compile(
            func,
            dynamic=dynamic,
            cache_dir=cache_dir,
            config=config,
            custom_decompositions=decompositions,
            **places,
        )
    warn_of_irrelevant(config, stacklevel=3)
    mode = Mode(
        parse(npugraph_options(config), backend="torchair"),
        functools.partial(_backend, config, decompositions, at_once=False),
        functools.partial(_backend, config, decompositions, at_once=True),
    )
    word = ("gecache" if ge_cache else "") if is_ge else "aclgraphcache"
    key = functools.partial(_key, config, mode, decompositions)
    return cached_function(func, dynamic, mode, word, key, cache_dir, ranks)


def _backend(config: CompilerConfig, decompositions: Mapping[Any, Any], *, at_once: bool) -> Callable[..., Any]:
    from npugraph.ge.backend.npu_backend import backend_of  # imports torch._dynamo

    return backend_of(config, decompositions, at_once=at_once)


def _key(config: CompilerConfig, mode: Mode, decompositions: Mapping[Any, Any]) -> str:
    """What the user sets: options of torchair, those of the backend, and converters."""
    chosen = [(path, text_of(holder.value)) for path, holder in holders(config).items() if not holder.is_default()]
    converters = sys.modules.get("npugraph.ge.backend.user_converters")  # it holds none if it is not imported
    found = converters.user_converters() if converters else []
    texts = [(str(converter.target), text_of(converter.body)) for converter in found]
    return repr((chosen, texts, key_of(mode.config, decompositions)))
