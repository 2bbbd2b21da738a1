# SPDX-License-Identifier: Apache-2.0
"""Tests that run once for each device, type and format.

@instantiate_tests
class TestAdd(TestCase):
    @Dtypes(torch.float16, torch.float32)
    @Formats(2, 29)
    def test_add(self, device, dtype, npu_format): ...
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any

from torch_npu.testing.common_utils import get_npu_device


class Dtypes:
    """Decorator: the test runs with each of these as ``dtype``."""

    def __init__(self, *args: Any):
        if not args:
            raise ValueError("Dtypes: name at least one type")
        self.args = args

    def __call__(self, fn: Callable) -> Callable:
        fn.dtypes = self.args
        return fn


class Formats:
    """Decorator: the test runs with each of these as ``npu_format``."""

    def __init__(self, *args: int):
        if not args:
            raise ValueError("Formats: name at least one format")
        self.args = args

    def __call__(self, fn: Callable) -> Callable:
        fn.formats = self.args
        return fn


def feed_data(func: Callable, new_name: str, *args: Any, **kwargs: Any) -> Callable:
    """``func`` with these arguments after ``self``, by another name."""

    @functools.wraps(func)
    def call(self: Any) -> Any:
        return func(self, *args, **kwargs)

    call.__name__ = new_name
    del call.__wrapped__  # pytest would ask for its arguments
    return call


def _variants(func: Callable) -> list[dict[str, Any]]:
    choices: dict[str, tuple[Any, ...]] = {}
    if hasattr(func, "dtypes"):
        choices["dtype"] = func.dtypes
    if hasattr(func, "formats"):
        choices["npu_format"] = func.formats
    if "device" in inspect.signature(func).parameters:
        choices["device"] = (get_npu_device(),)
    return (
        [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())] if choices else []
    )


def _suffix(variant: dict[str, Any]) -> str:
    named = [str(value).replace("torch.", "").replace(":", "_") for value in variant.values()]
    return "_".join(named)


def instantiate_tests(arg: type | None = None, **kwargs: Any) -> Any:
    """Decorator of a class: puts one test for each device, type and format in the place of each test that takes them.

    Args:
        kwargs: more arguments of all tests that are made.
    """

    def instantiate(cls: type) -> type:
        for name, func in list(vars(cls).items()):
            variants = _variants(func) if name.startswith("test") and callable(func) else []
            if not variants:
                continue
            delattr(cls, name)
            for variant in variants:
                made = f"{name}_{_suffix(variant)}"
                setattr(cls, made, feed_data(func, made, **variant, **kwargs))
        return cls

    return instantiate if arg is None else instantiate(arg)
