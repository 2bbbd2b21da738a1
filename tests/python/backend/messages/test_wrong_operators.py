# SPDX-License-Identifier: Apache-2.0
"""Operators of users that do not do what they say. The error names the operator and the user's line, and other graphs
and later calls work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import npugraph_ex  # noqa: F401 (the backend)
import torchair

MODES = ("npugraph_ex", "max-autotune")
library = torch.library.Library("wrong_tests", "DEF")


def define(name: str, compute: Callable[..., Any], meta: Callable[..., Any] = torch.empty_like) -> None:
    library.define(f"{name}(Tensor x) -> Tensor")
    library.impl(name, compute, "CPU")
    library.impl(name, meta, "Meta")


def refuses(x: torch.Tensor) -> torch.Tensor:
    raise ValueError("no x is good enough")


define("sizes", lambda x: x * 2, lambda x: x.new_empty(5))
define("rank", lambda x: x * 2, lambda x: x.new_empty(x.numel()))
define("dtype", lambda x: x * 2, lambda x: x.new_empty(x.shape, dtype=torch.float64))
define("device", lambda x: x.to("meta"))
define("nothing", lambda x: None)
define("raises", refuses)
define("not_finite", lambda x: x.new_empty(int(x.abs().sum().item() * float("inf"))))
define("strides", lambda x: (x * 2).t().contiguous().t())
define("returned", lambda x: x)
define("view", lambda x: x.view(-1)[:12].view(3, 4))
define("meta_returns", lambda x: x * 2, lambda x: x)
define("meta_raises", lambda x: x * 2, refuses)


def compiled(fn: Callable[..., Any], mode: str) -> Callable[..., Any]:
    backend = mode if mode == "npugraph_ex" else torchair.get_npu_backend(compiler_config=torchair.CompilerConfig())
    return torch.compile(fn, backend=backend, fullgraph=True)


def model_of(name: str) -> Callable[..., Any]:
    operator = getattr(torch.ops.wrong_tests, name)

    def model(x: torch.Tensor) -> Any:
        y = x + 1
        return operator(y) * 2, y * 3

    return model


@pytest.fixture(autouse=True)
def others_live_on() -> Iterator[None]:
    with torch.no_grad():
        other = torch.compile(lambda x: torch.relu(x - 1) @ x, backend="npugraph_ex")
        x = torch.randn(4, 4)
        expected = other(x)
        yield
        assert torch.equal(other(x), expected)


@pytest.mark.feature("7.04", "11.08")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("sizes", RuntimeError, r"wrong_tests.sizes returned sizes \[3, 4\] where the program needs \[5\]"),
        ("rank", RuntimeError, r"wrong_tests.rank returned sizes \[3, 4\] where the program needs \[12\]"),
        ("dtype", RuntimeError, r"wrong_tests.dtype returned \S+"),
        ("device", RuntimeError, r"wrong_tests.device returned \S+"),
        ("nothing", RuntimeError, "wrong_tests.nothing returned "),
        ("raises", ValueError, "no x is good enough"),
        ("not_finite", OverflowError, "cannot convert float infinity to integer"),
    ],
)
def test_results_that_the_meta_function_does_not_promise(
    mode: str, name: str, kind: type[Exception], message: str
) -> None:
    model = model_of(name)
    fast = compiled(model, mode)
    for _ in range(2):
        with pytest.raises(kind, match=message) as caught:
            fast(torch.randn(3, 4))
        line = model.__code__.co_firstlineno + 2
        place = f"in wrong_tests.{name} ({__file__}:{line} in model)"
        assert place in caught.value.__notes__


@pytest.mark.feature("7.04")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["strides", "returned", "view"])
def test_values_are_right_where_only_the_memory_differs(mode: str, name: str) -> None:
    model = model_of(name)
    fast = compiled(model, mode)
    for _ in range(2):
        x = torch.randn(3, 4)
        results = fast(x)
        torch.testing.assert_close(results, model(x))
        assert all(result.is_contiguous() for result in results)  # as the Meta function says


@pytest.mark.parametrize("mode", MODES)
def test_a_meta_function_that_returns_its_argument(mode: str) -> None:
    """Its result has memory of its own, so writing it leaves the argument alone."""
    operator = torch.ops.wrong_tests.meta_returns
    x = torch.randn(3, 4)
    before = x.clone()
    result = compiled(lambda x: (operator(x).mul_(2), x + 1), mode)(x)
    torch.testing.assert_close(result, (x * 4, before + 1))
    torch.testing.assert_close(x, before)


@pytest.mark.parametrize("mode", MODES)
def test_a_meta_function_that_fails(mode: str) -> None:
    with pytest.raises(Exception, match="no x is good enough") as caught:
        compiled(model_of("meta_raises"), mode)(torch.randn(3, 4))
    assert "wrong_tests.meta_raises" in str(caught.value)
