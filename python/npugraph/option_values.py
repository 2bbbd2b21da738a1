# SPDX-License-Identifier: Apache-2.0
"""The kinds of values that options take."""

from __future__ import annotations

import difflib
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Setting:
    """A checked value, read as ``.value``. ``given`` says whether the user set it; otherwise it is a default."""

    def __init__(self, value: Any, given: bool = False) -> None:
        self.value = value
        self.given = given

    def __repr__(self) -> str:
        return repr(self.value)


class Value:
    """The values that an option takes. ``allowed`` describes them in words."""

    allowed: str

    def check(self, what: str, given: Any) -> Any:
        """Returns the value to use; ``what`` names the option in errors."""
        raise NotImplementedError

    def refusal(self, what: str, given: Any) -> str:
        return f"{what} takes {self.allowed}, got {given!r} ({type(given).__name__})"


class Choice(Value):
    """One of several values. Raises ``ValueError`` for other values, also for 1 in place of True; the text names the
    value that looks like the one given, if there is one."""

    def __init__(self, *values: Any) -> None:
        self.values = values
        self.allowed = " or ".join(map(repr, values))

    def check(self, what: str, given: Any) -> Any:
        if any(given is value or (type(given) is type(value) and given == value) for value in self.values):
            return given
        raise ValueError(self.refusal(what, given) + self._likely(given))

    def _likely(self, given: Any) -> str:
        named = {str(value).casefold(): value for value in self.values}
        found = difflib.get_close_matches(str(given).casefold(), named, n=1)
        return f"; did you mean {named[found[0]]!r}?" if found else ""


class Either(Value):
    """A value of one of several kinds. Raises ``ValueError`` for other values."""

    def __init__(self, *kinds: Value) -> None:
        self.kinds = kinds
        self.allowed = " or ".join(kind.allowed for kind in kinds)

    def check(self, what: str, given: Any) -> Any:
        for kind in self.kinds:
            try:
                return kind.check(what, given)
            except (TypeError, ValueError):
                continue
        raise ValueError(self.refusal(what, given))


class IntRange(Value):
    """An int within bounds, both inclusive. Raises ``ValueError`` for anything else, also for True."""

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most
        self.allowed = f"an int from {_power(least)} to {_power(most)}"

    def check(self, what: str, given: Any) -> int:
        if isinstance(given, int) and not isinstance(given, bool) and self.least <= given <= self.most:
            return given
        raise ValueError(self.refusal(what, given))


class PoolHandle(Value):
    """A handle that ``torch.npu.graph_pool_handle()`` returned. Raises ``TypeError`` for anything else."""

    allowed = "a graph pool handle, that is a tuple of two ints of which one is 0"

    def check(self, what: str, given: Any) -> tuple[int, int]:
        is_pair = isinstance(given, tuple) and len(given) == 2 and all(type(part) is int for part in given)
        if not is_pair or 0 not in given or not all(0 <= part < 2**63 for part in given):
            raise TypeError(f"{self.refusal(what, given)}: Invalid graph pool handle type")
        return given


class Text(Value):
    """Any str. Raises ``TypeError`` for anything else."""

    allowed = "a str"

    def check(self, what: str, given: Any) -> str:
        if isinstance(given, str):
            return given
        raise TypeError(self.refusal(what, given))


class Pattern(Value):
    """A str that a regular expression matches as a whole. Raises ``ValueError`` for anything else. ``allowed``
    describes such strings in words."""

    def __init__(self, pattern: str, allowed: str) -> None:
        self.pattern = re.compile(pattern)
        self.allowed = f"a str of {allowed}"

    def check(self, what: str, given: Any) -> str:
        if isinstance(given, str) and self.pattern.fullmatch(given):
            return given
        raise ValueError(self.refusal(what, given))


class TextList(Value):
    """A list of known names. Raises ``TypeError`` for anything but a list or tuple, ``ValueError`` for an unknown
    name."""

    def __init__(self, known: Callable[[], Sequence[str]], names: str) -> None:
        self.known = known
        self.allowed = f"a list of {names}"

    def check(self, what: str, given: Any) -> tuple[str, ...]:
        if not isinstance(given, (list, tuple)):
            raise TypeError(self.refusal(what, given))
        unknown = [name for name in given if name not in self.known()]
        if unknown:
            raise ValueError(f"{self.refusal(what, given)}; {unknown[0]!r} is none of {', '.join(self.known())}")
        return tuple(given)


class IntList(Value):
    """A list of ints. Raises ``TypeError`` for anything else."""

    allowed = "a list of ints"

    def check(self, what: str, given: Any) -> tuple[int, ...]:
        if isinstance(given, (list, tuple)) and all(type(value) is int for value in given):
            return tuple(given)
        raise TypeError(self.refusal(what, given))


class NameList(Value):
    """A list of any names. Raises ``TypeError`` for anything else, also for an empty name in the list."""

    def __init__(self, names: str) -> None:
        self.allowed = f"a list of {names}"

    def check(self, what: str, given: Any) -> tuple[str, ...]:
        if isinstance(given, (list, tuple)) and all(isinstance(name, str) and name for name in given):
            return tuple(given)
        raise TypeError(self.refusal(what, given))


class Settings(Value):
    """A dict from known names to values. Raises ``RuntimeError``, as ``NPUGraph.super_kernel_optimize`` does, for
    anything but a dict, for an unknown name and for a value that is not allowed. If one of the names ``combined`` is
    given, their values must be one of ``combinations``, and a missing name counts as 0. A name may have underscores in
    the place of its hyphens, as vLLM writes it."""

    def __init__(
        self, values: Mapping[str, Value], combined: Sequence[str] = (), combinations: Sequence[tuple[Any, ...]] = ()
    ) -> None:
        self.values = values
        self.combined = combined
        self.combinations = combinations
        self.allowed = f"a dict of {', '.join(f'{name!r}: {value.allowed}' for name, value in values.items())}"
        if combinations:
            together = ", ".join(":".join(map(str, numbers)) for numbers in combinations)
            self.allowed += f", of which {' and '.join(combined)} are together {together}"

    def check(self, what: str, given: Any) -> dict[str, Any]:
        if not isinstance(given, Mapping):
            raise RuntimeError(self.refusal(what, given))
        checked = {}
        for written, value in given.items():
            name = written.replace("_", "-") if isinstance(written, str) else written
            if name not in self.values:
                raise RuntimeError(f"{self.refusal(what, given)}; there is no {written!r}")
            try:
                self.values[name].check(repr(name), value)
            except (TypeError, ValueError) as error:
                raise RuntimeError(f"{self.refusal(what, given)}; {error}") from None
            checked[name] = value
        chosen = tuple(checked.get(name, 0) for name in self.combined)
        if not checked.keys().isdisjoint(self.combined) and chosen not in self.combinations:
            raise RuntimeError(self.refusal(what, given))
        return checked


class Directory(Value):
    """An existing directory. Raises ``FileNotFoundError`` for another path, ``TypeError`` for anything but a path."""

    allowed = "an existing directory"

    def check(self, what: str, given: Any) -> str:
        if not isinstance(given, (str, os.PathLike)):
            raise TypeError(self.refusal(what, given))
        if not os.path.isdir(given):
            raise FileNotFoundError(self.refusal(what, given))
        return os.fspath(given)


class Folder(Value):
    """A directory, which need not exist: whoever writes files there makes it. Raises ``NotADirectoryError`` for a path
    to something else, ``TypeError`` for anything but a path."""

    allowed = "a directory, which is made if it does not exist"

    def check(self, what: str, given: Any) -> str:
        if not isinstance(given, (str, os.PathLike)):
            raise TypeError(self.refusal(what, given))
        if os.path.exists(given) and not os.path.isdir(given):
            raise NotADirectoryError(self.refusal(what, given))
        return os.fspath(given)


class File(Value):
    """An existing file whose name ends with ``suffix``. Raises ``FileNotFoundError`` for a path to none,
    ``ValueError`` for another suffix, ``TypeError`` for anything but a path."""

    def __init__(self, suffix: str = "") -> None:
        self.suffix = suffix
        self.allowed = f"an existing file *{suffix}" if suffix else "an existing file"

    def check(self, what: str, given: Any) -> str:
        if not isinstance(given, (str, os.PathLike)):
            raise TypeError(self.refusal(what, given))
        if not os.fspath(given).endswith(self.suffix):
            raise ValueError(self.refusal(what, given))
        if not os.path.isfile(given):
            raise FileNotFoundError(self.refusal(what, given))
        return os.fspath(given)


class AnyCallable(Value):
    """A function of ``arguments`` positional arguments. Raises ``TypeError`` for anything else."""

    def __init__(self, allowed: str, arguments: int) -> None:
        self.allowed = allowed
        self.arguments = arguments

    def check(self, what: str, given: Any) -> Callable[..., Any]:
        if not callable(given) or not self._takes(given):
            raise TypeError(self.refusal(what, given))
        return given

    def _takes(self, given: Callable[..., Any]) -> bool:
        try:
            inspect.signature(given).bind(*[None] * self.arguments)
        except TypeError:
            return False
        except ValueError:  # a C function does not say which arguments it takes
            return True
        return True


def _power(number: int) -> str:
    exponent = (number + 1).bit_length() - 1
    return f"2**{exponent} - 1" if number > 9999 and number == 2**exponent - 1 else str(number)
