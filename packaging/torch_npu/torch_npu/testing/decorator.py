# SPDX-License-Identifier: Apache-2.0
"""Tests that run once for each device, type and format.

@instantiate_tests
class TestAdd(TestCase):
    @Dtypes(torch.float16, torch.float32)
    @Formats(2, 29)
    def test_add(self, device, dtype, npu_format): ...

@instantiate_ops_tests(op_db)
class TestOperators(TestCase):
    @Dtypes(torch.float32)
    def test_eager(self, device, dtype, op): ...
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable
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
    """Returns ``func`` with these arguments after ``self``, under another name."""

    @functools.wraps(func)
    def call(self: Any) -> Any:
        return func(self, *args, **kwargs)

    call.__name__ = new_name
    del call.__wrapped__  # pytest would ask for the arguments of ``func``
    return call


def _choices(func: Callable) -> dict[str, tuple[Any, ...]]:
    choices: dict[str, tuple[Any, ...]] = {}
    if hasattr(func, "dtypes"):
        choices["dtype"] = func.dtypes
    if hasattr(func, "formats"):
        choices["npu_format"] = func.formats
    if "device" in inspect.signature(func).parameters:
        choices["device"] = (get_npu_device(),)
    return choices


def _variants(func: Callable) -> list[dict[str, Any]]:
    choices = _choices(func)
    return (
        [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())] if choices else []
    )


def _suffix(variant: dict[str, Any]) -> str:
    named = [str(value).replace("torch.", "").replace(":", "_") for value in variant.values()]
    return "_".join(named)


def _tests(cls: type) -> list[tuple[str, Callable]]:
    return [(name, func) for name, func in vars(cls).items() if name.startswith("test") and callable(func)]


def instantiate_tests(arg: type | None = None, **kwargs: Any) -> Any:
    """Decorator of a class: replaces each test that takes them by one test for each device, type and format.

    Args:
        kwargs: more arguments of all tests that are made.
    """

    def instantiate(cls: type) -> type:
        for name, func in _tests(cls):
            variants = _variants(func)
            if not variants:
                continue
            delattr(cls, name)
            for variant in variants:
                made = f"{name}_{_suffix(variant)}"
                setattr(cls, made, feed_data(func, made, **variant, **kwargs))
        return cls

    return instantiate if arg is None else instantiate(arg)


def gen_ops_testcase(
    cls: type, func: Callable, name: str, keys: Iterable[str], value: Iterable[Any], op_info: Any
) -> None:
    """Adds ``func`` to ``cls`` as the test ``name`` of the operator ``op_info``, which is its argument ``op``. The
    arguments ``keys`` get the values ``value``."""
    variant = dict(zip(keys, value, strict=True))
    made = "_".join(filter(None, (name, op_info.formatted_name, _suffix(variant))))
    setattr(cls, made, feed_data(func, made, op=op_info, **variant))


def gen_op_input(testcase: type, func: Callable, op_info: Any) -> None:
    """Adds ``func`` to the class ``testcase`` once for each type and format. If it takes ``dtype`` and names no types,
    it gets the types of the operator ``op_info``. Formats come from ``op_info.formats``, if there are any."""
    choices = _choices(func)
    parameters = inspect.signature(func).parameters
    of_op = {"dtype": sorted(op_info.dtypes, key=str), "npu_format": getattr(op_info, "formats", ())}
    choices |= {key: tuple(of_op[key]) for key in of_op if key in parameters and key not in choices and of_op[key]}
    for value in itertools.product(*choices.values()):
        gen_ops_testcase(testcase, func, func.__name__, choices, value, op_info)


def instantiate_ops_tests(op_db: Iterable[Any]) -> Callable[[type], type]:
    """Decorator of a class: replaces each test that takes ``op`` by tests of each operator of ``op_db``, a list of
    torch's ``OpInfo``."""
    operators = list(op_db)

    def instantiate(cls: type) -> type:
        for name, func in _tests(cls):
            if "op" not in inspect.signature(func).parameters:
                continue
            delattr(cls, name)
            for op_info in operators:
                gen_op_input(cls, func, op_info)
        return cls

    return instantiate
