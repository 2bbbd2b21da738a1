# SPDX-License-Identifier: Apache-2.0
"""Messages for users: errors that reach them without the frames of torch.compile, and warnings of a compile."""

from __future__ import annotations

import contextlib
import inspect
import types
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.exc import BackendCompilerFailed, ShortenTraceback

from npugraph.error_notes import add_note
from npugraph.fx.passes.pipeline import CustomPassError
from npugraph.fx.streams.scopes import ScopeError, strict_scopes
from npugraph.options import CompilerConfig, backend_of
from npugraph.warning_kinds import NpugraphWarning


class OptionValueError(ShortenTraceback, ValueError):
    """A ``ValueError`` that torch.compile hands to the user as it is, without its own frames."""


class OptionPathError(ShortenTraceback, FileNotFoundError):
    """A ``FileNotFoundError`` that torch.compile hands to the user as it is, without its own frames."""


class OptionTypeError(ShortenTraceback, TypeError):
    """A ``TypeError`` that torch.compile hands to the user as it is, without its own frames."""


class OptionRuntimeError(ShortenTraceback):
    """A ``RuntimeError`` that torch.compile hands to the user as it is, without its own frames."""


_KINDS = {TypeError: OptionTypeError, FileNotFoundError: OptionPathError, RuntimeError: OptionRuntimeError}


def for_the_user(check: Callable[[], Any], backend: str) -> Any:
    """Returns what ``check`` returns. An error of ``check`` becomes an error of the same kind that torch.compile leaves
    alone."""
    try:
        return check()
    except (TypeError, ValueError, FileNotFoundError, RuntimeError) as error:
        kind = _KINDS.get(type(error), OptionValueError)
        refusal = kind(str(error), first_useful_frame=inspect.currentframe())
        add_note(refusal, backend)
        raise refusal from None


@contextlib.contextmanager
def noted(backend: str) -> Iterator[None]:
    """Adds notes to errors of a compile. Errors of the user's passes are wrapped here in the way
    of Dynamo, with the name of the backend, because Dynamo itself would drop the notes."""
    try:
        yield
    except ShortenTraceback as error:
        add_note(error, backend)
        raise
    except CustomPassError as error:
        named = types.SimpleNamespace(__name__=backend)
        failed = BackendCompilerFailed(named, error, inspect.currentframe())
        add_note(failed, backend)
        raise failed.with_traceback(error.__traceback__) from None


def refuse_release_with_gradients(config: CompilerConfig) -> None:
    if config.release_original_weights.value and torch.is_grad_enabled():
        raise OptionValueError(
            f"option 'release_original_weights' of backend {backend_of(config)!r} needs torch.no_grad() or "
            "inference_mode(), got a call with gradients on: a backward pass would need the weights",
            first_useful_frame=inspect.currentframe(),
        )


def refuse_cut_scopes(core: Any, config: CompilerConfig, gm: fx.GraphModule) -> None:
    """Raises ``ScopeError`` if a super kernel scope that has to be one task is not one task."""
    if not config.super_kernel_optimize.value:
        return
    all_strict = (config.super_kernel_optimize_options.value or {}).get("strict-scope-check") == "abort"
    refuse_cuts(core, None if all_strict else strict_scopes(gm.graph))


def refuse_cuts(core: Any, strict: Collection[str] | None) -> None:
    """Raises ``ScopeError`` if a super kernel scope among those of the names ``strict``, or of all for None, is not one
    task."""
    for scope, tasks, _, cuts in core.scopes():
        if cuts and (strict is None or scope in strict):
            raise ScopeError(
                f"super kernel scope {scope!r} has strict-scope-check=abort, and {len(cuts)} of its {tasks} tasks "
                f"cannot be part of a super kernel, because they are not generated code: {', '.join(cuts)}",
                first_useful_frame=None,
            )


def warn_of_keys(texts: Sequence[str]) -> None:
    for text in texts:
        warnings.warn(text, NpugraphWarning, stacklevel=2)


def warn_of_partitions(partitions: Sequence[Any], backend: str) -> None:
    if not partitions:
        return
    first = partitions[0]
    more = f" (and {len(partitions) - 1} more: see artifact.partitions)" if len(partitions) > 1 else ""
    where = f" at {first.source}" if first.source else ""
    warnings.warn(
        f"{backend}: {first.target}{where} runs in Python between captured tasks{more}: {first.reason}",
        NpugraphWarning,
        stacklevel=2,
    )
