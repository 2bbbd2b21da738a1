# SPDX-License-Identifier: Apache-2.0
"""Converters that users register. Their errors are for the user to mend, so they are raised; those of the package's own
converters are defects of it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from torch._dynamo.exc import ShortenTraceback

from npugraph.ge.converters import registry
from npugraph.ge.graph import Tensor

_Body = TypeVar("_Body", bound=registry.Converter)


class ConverterError(ShortenTraceback):
    """A converter of the user failed, or returned something else than results. torch.compile hands it to the user as it
    is. Its notes name the user's line."""


def register_fx_node_ge_converter(target: Any) -> Callable[[_Body], _Body]:
    """Makes the decorated function the converter of an operator, as ``npugraph.ge.converters`` describes it. A function
    without a parameter ``meta_outputs`` is called without it. Errors of the function other than
    ``NotImplementedError`` become ``ConverterError``."""
    register = registry.register_fx_node_ge_converter(target)
    name = registry.name_of(target)

    def register_checked(body: _Body) -> _Body:
        register(functools.partial(_convert, name, body, _takes_meta_outputs(body)))
        return body

    return register_checked


def _takes_meta_outputs(body: registry.Converter) -> bool:
    parameters = inspect.signature(body).parameters
    return "meta_outputs" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def _convert(
    name: str, body: registry.Converter, takes_meta_outputs: bool, *args: Any, meta_outputs: Any, **kwargs: Any
) -> Any:
    if takes_meta_outputs:
        kwargs["meta_outputs"] = meta_outputs
    try:
        result = body(*args, **kwargs)
    except NotImplementedError:
        raise
    except Exception as error:
        failed = _failed(name, f"{type(error).__name__}: {error}")
        raise failed.with_traceback(error.__traceback__) from error
    if not _fits(_as_list(result), _as_list(meta_outputs)):
        raise _failed(name, f"it returned {result!r} for the results {meta_outputs!r}")
    return result


def _fits(results: list[Any], specs: list[Any]) -> bool:
    """Whether there is a tensor for each spec. One of several may be left out, as None."""
    if len(results) != len(specs) or (results == [None] and specs != [None]):
        return False
    return all(
        spec is None or result is None or isinstance(result, Tensor)
        for result, spec in zip(results, specs, strict=True)
    )


def _failed(name: str, why: str) -> ConverterError:
    return ConverterError(f"the converter of {name} failed: {why}", first_useful_frame=None)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
