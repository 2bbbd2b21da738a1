# SPDX-License-Identifier: Apache-2.0
"""``torchair.CompilerConfig``: the options of the table as a tree of attributes."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from npugraph.ge.config.row import Row
from npugraph.ge.config.table import ROWS


class UnknownOptionError(ValueError, AttributeError):
    """A name that the tree does not have. The text says which names it has, and which of them are likely meant."""


class Holder:
    """The value of one option of one configuration. Reading and setting are ``holder.value``; setting checks.
    ``given`` says whether the user set it; otherwise it is the default."""

    __slots__ = ("_value", "given", "row")

    def __init__(self, row: Row, value: Any, given: bool = False) -> None:
        self.row = row
        self.given = given
        self._value = value

    @property
    def value(self) -> Any:
        return self._value

    @value.setter
    def value(self, given: Any) -> None:
        self._take(given)

    def _take(self, given: Any) -> None:
        """Sets the value, for a function that user code calls."""
        self._value = self.row.check(given)
        self.given = True
        if instead := self.row.instead_of(self._value):
            text = f"option {self.row.path!r} of torchair.CompilerConfig: {given!r} is deprecated; {instead}"
            warnings.warn(text, DeprecationWarning, stacklevel=3)

    def is_default(self) -> bool:
        """Whether the option acts as if nobody had set it."""
        return self._value == self.row.default and not (self.given and self.row.acts_when_given)

    def __repr__(self) -> str:
        return repr(self._value)


def _names_by_branch(paths: Iterable[str]) -> dict[str, list[str]]:
    """The names below each branch of the tree, in their order; the path of the root is ''."""
    names: dict[str, dict[str, None]] = {}
    for path in paths:
        parts = path.split(".")
        for depth, part in enumerate(parts):
            names.setdefault(".".join(parts[:depth]), {})[part] = None
    return {branch: list(below) for branch, below in names.items()}


_ROWS = {row.path: row for row in ROWS}
_NAMES = _names_by_branch(_ROWS)


class Branch:
    """The options of a configuration whose paths begin with that of the branch.

    ``branch.name = value`` sets an option and ``branch.name.value`` reads it; ``branch.name`` may be a branch, too.
    Raises ``UnknownOptionError``, which is a ``ValueError``, for other names, and what docs/torchair_config.md says for
    values that are not allowed.
    """

    __slots__ = ("_holders", "_path")
    __hash__ = None  # type: ignore[assignment]  # options can be set

    def __init__(self, path: str, holders: dict[str, Holder]) -> None:
        object.__setattr__(self, "_path", path)
        object.__setattr__(self, "_holders", holders)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        path = _joined(self._path, name)
        if path in _NAMES:
            return Branch(path, self._holders)
        if path not in _ROWS:
            raise _unknown(self._path, name)
        return self._holders[path]

    def __setattr__(self, name: str, value: Any) -> None:
        path = _joined(self._path, name)
        if path in _NAMES:
            options = ", ".join(_joined(path, below) for below in _NAMES[path])
            raise ValueError(f"{path!r} of torchair.CompilerConfig holds options and takes no value; set {options}")
        if path not in _ROWS:
            raise _unknown(self._path, name)
        self._holders[path]._take(value)

    def __dir__(self) -> list[str]:
        return _NAMES[self._path]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Branch):
            return NotImplemented
        return self._path == other._path and self._settings() == other._settings()

    def __repr__(self) -> str:
        start = len(self._path) + 1 if self._path else 0
        changed = (f"{path[start:]}={holder}" for path, holder in self._below() if not holder.is_default())
        return f"{_joined('CompilerConfig', self._path)}({', '.join(changed)})"

    def __reduce__(self) -> tuple[Callable[..., Branch], tuple[str, dict[str, Any]]]:
        """Copies, deep ones and those of ``copy.copy``, share no holder with their original."""
        return _restored, (self._path, {path: holder.value for path, holder in self._below() if holder.given})

    def _below(self) -> Iterator[tuple[str, Holder]]:
        prefix = _joined(self._path, "") if self._path else ""
        return ((path, holder) for path, holder in self._holders.items() if path.startswith(prefix))

    def _settings(self) -> dict[str, tuple[Any, bool]]:
        return {path: (holder.value, holder.is_default()) for path, holder in self._below()}


class CompilerConfig(Branch):
    """The options of ``torchair.get_npu_backend``, as a tree of attributes: ``config.debug.run_eagerly = True`` sets an
    option, ``config.debug.run_eagerly.value`` reads it. docs/torchair_config.md describes each option.

    Setting checks the value. It raises ``ValueError`` for an unknown name or a value that is not allowed (the message
    says what is), ``TypeError`` for a container, function or path of the wrong kind, ``FileNotFoundError`` for a file
    or directory that does not exist, ``NotADirectoryError`` for something else in the place of one,
    ``RuntimeError`` for settings that super kernels do not have. A deprecated value gives a ``DeprecationWarning``.
    Configurations share nothing; they are equal if their options act alike.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("", {path: Holder(row, row.default) for path, row in _ROWS.items()})

    def as_dict(self) -> dict[str, Any]:
        """Returns the values of all options by path, in the order of the table."""
        return {path: holder.value for path, holder in self._below()}


def holders(config: CompilerConfig) -> Mapping[str, Holder]:
    """Returns the options of a configuration by path, in the order of the table."""
    return config._holders


def _restored(path: str, given: Mapping[str, Any]) -> Branch:
    config = CompilerConfig()
    for option, value in given.items():
        config._holders[option] = Holder(_ROWS[option], value, given=True)
    return Branch(path, config._holders) if path else config


def _joined(branch: str, name: str) -> str:
    return f"{branch}.{name}" if branch and name else branch or name


def _unknown(branch: str, name: str) -> UnknownOptionError:
    likely = " or ".join(map(repr, _likely(branch, name)))
    hint = f"did you mean {likely}? The" if likely else "the"
    where = f" in {branch!r}" if branch else ""
    public = [below for below in _NAMES[branch] if not below.startswith("_")]
    return UnknownOptionError(
        f"torchair.CompilerConfig has no option {_joined(branch, name)!r}; {hint} names{where} are: "
        f"{', '.join(public or _NAMES[branch])}"
    )


def _likely(branch: str, name: str) -> list[str]:
    """Paths that may be meant: that of the same name elsewhere, else a similar name here, else one elsewhere."""
    ends: dict[str, list[str]] = {}
    for path in (*_NAMES, *_ROWS):
        ends.setdefault(path.rpartition(".")[2], []).append(path)
    if name in ends:
        return ends[name]
    here = difflib.get_close_matches(name, _NAMES[branch], n=1)
    if here:
        return [_joined(branch, here[0])]
    elsewhere = difflib.get_close_matches(name, ends, n=1)
    return ends[elsewhere[0]] if elsewhere else []
