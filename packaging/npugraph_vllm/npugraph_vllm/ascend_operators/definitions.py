# SPDX-License-Identifier: Apache-2.0
"""Defines operators of namespace ``_C_ascend`` with the schemas of the installed vllm-ascend.

``schemas/<version>.txt`` has the schemas of a version, one a line. Versions of the same operator may have other
arguments, so a kernel gets all arguments by name, those with defaults too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, wraps
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import torch

# The kernels call operators of this module.
import torch_npu  # noqa: F401

NAMESPACE = "_C_ascend"
LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])


def _wanted_files() -> list[Path]:
    """The file of the newest version that is not newer than the installed vllm-ascend. Without vllm-ascend all files,
    the newest last."""
    files = sorted((Path(__file__).parent / "schemas").glob("*.txt"), key=lambda path: _release(path.stem))
    try:
        installed = _release(version("vllm_ascend"))
    except PackageNotFoundError:
        return files
    return [path for path in files if _release(path.stem) <= installed][-1:] or files[:1]


@cache
def schemas() -> dict[str, str]:
    """The schema of each operator by its name, which includes that of its overload."""
    lines = [line for path in _wanted_files() for line in path.read_text().splitlines()]
    return {line.partition("(")[0]: line for line in lines}


def result_count(name: str) -> int:
    """How many results the operator has, which depends on the version."""
    return len(torch._C.parse_schema(schemas()[name]).returns)


def is_defined(name: str) -> bool:
    return torch._C._dispatch_has_kernel(f"{NAMESPACE}::{name}")


def composite(*names: str) -> Callable[[Kernel], Kernel]:
    """Makes the function the kernel of operators that compilers see as its parts."""
    return _defines(names, "CompositeImplicitAutograd", None)


def whole(*names: str, fake: Callable[..., Any] | None = None) -> Callable[[Kernel], Kernel]:
    """Makes the function the kernel of operators that compilers call as a whole. ``fake`` gives results of the right
    shapes; without it the kernel itself does, over tensors without memory."""
    return _defines(names, "CompositeExplicitAutograd", fake)


def _defines(names: tuple[str, ...], key: str, fake: Callable[..., Any] | None) -> Callable[[Kernel], Kernel]:
    def define(kernel: Kernel) -> Kernel:
        for name in names:
            schema = schemas().get(name)
            if schema is None:  # not an operator of this version
                continue
            LIBRARY.define(schema)
            LIBRARY.impl(name, _by_name(kernel, schema), key)
            if fake is not None:
                LIBRARY.impl(name, _by_name(fake, schema), "Meta")
        return kernel

    return define


def _by_name(kernel: Callable[..., Any], schema: str) -> Callable[..., Any]:
    arguments = torch._C.parse_schema(schema).arguments
    names = [argument.name for argument in arguments]
    defaults = {argument.name: argument.default_value for argument in arguments if argument.has_default_value()}

    @wraps(kernel)
    def call(*args: Any, **kwargs: Any) -> Any:
        return kernel(**{**defaults, **dict(zip(names, args, strict=False)), **kwargs})

    return call
