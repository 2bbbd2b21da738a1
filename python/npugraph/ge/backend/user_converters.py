# SPDX-License-Identifier: Apache-2.0
"""Converters that users register. Their errors are for the user to mend, so they are raised; those of the package's own
converters are defects of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch._dynamo.exc import ShortenTraceback

from npugraph.ge.backend.declared_calls import Support
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

    def register_checked(body: _Body) -> _Body:
        register(UserConverter(target, body))
        return body

    return register_checked


class UserConverter:
    """The function ``body`` of a user as the converter of ``target``."""

    def __init__(self, target: Any, body: registry.Converter) -> None:
        self.target, self.body = target, body
        parameters = inspect.signature(body).parameters
        self._takes_meta_outputs = "meta_outputs" in parameters or any(
            parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
        )

    @property
    def supported_cases(self) -> Sequence[Support]:
        """The calls that ``declare_supported`` has given to the function."""
        return getattr(self.body, "supported_cases", ())

    def __call__(self, *args: Any, meta_outputs: Any, **kwargs: Any) -> Any:
        if self._takes_meta_outputs:
            kwargs["meta_outputs"] = meta_outputs
        try:
            result = self.body(*args, **kwargs)
        except NotImplementedError:
            raise
        except Exception as error:
            failed = self._failed(f"{type(error).__name__}: {error}")
            raise failed.with_traceback(error.__traceback__) from error
        if not _fits(_as_list(result), _as_list(meta_outputs)):
            raise self._failed(f"it returned {result!r} for the results {meta_outputs!r}")
        return result

    def _failed(self, why: str) -> ConverterError:
        text = f"the converter of {registry.name_of(self.target)} failed: {why}"
        return ConverterError(text, first_useful_frame=None)


def user_converters() -> list[UserConverter]:
    """Those that are in use, sorted by the names of their targets."""
    found = map(registry.of_name, registry.registered())
    return [converter for converter in found if isinstance(converter, UserConverter)]


def _fits(results: list[Any], specs: list[Any]) -> bool:
    """Whether there is a tensor for each spec. One of several may be left out, as None."""
    if len(results) != len(specs) or (results == [None] and specs != [None]):
        return False
    return all(
        spec is None or result is None or isinstance(result, Tensor)
        for result, spec in zip(results, specs, strict=True)
    )


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
