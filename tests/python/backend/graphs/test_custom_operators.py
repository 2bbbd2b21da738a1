# SPDX-License-Identifier: Apache-2.0
"""Operators from torch.library are captured as operators, and the arguments that they write are written in place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch._dynamo.exc import TorchRuntimeError, Unsupported

import npugraph_ex
import torchair
from tests.python.backend.checks import check, check_captured, compile_ex, task_names
from tests.python.forks import run_python


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


@torch.library.custom_op("backend_tests::plus_one", mutates_args=())
def plus_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


plus_one.register_fake(lambda x: torch.empty_like(x))


@torch.library.custom_op("backend_tests::scale_", mutates_args=("x",))
def scale_(x: torch.Tensor, factor: float) -> None:
    x.mul_(factor)


@torch.library.custom_op("backend_tests::accumulate_", mutates_args=("x", "sums"))
def accumulate_(x: torch.Tensor, sums: list[torch.Tensor]) -> torch.Tensor:
    x.mul_(2)
    sums[0].add_(x)
    return x + 1


accumulate_.register_fake(lambda x, sums: torch.empty_like(x))


@torch.library.custom_op("backend_tests::any_device", mutates_args=())
def any_device(x: torch.Tensor, name: str, device: torch.device, sizes: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    return x.reshape(sizes).clone(), x.sum()


any_device.register_fake(lambda x, name, device, sizes: (x.new_empty(sizes), x.new_empty(())))


def vector():
    return (torch.randn(4),)


def test_a_functional_operator_is_a_task_of_its_own() -> None:
    (artifact,) = check_captured(lambda x: plus_one(x * 2) * 3, vector)
    assert "backend_tests.plus_one" in task_names(artifact)


@pytest.mark.feature("7.05")
def test_writes_to_a_temporary_are_in_place() -> None:
    def fn(x):
        y = x * 2
        scale_(y, 3.0)
        return y + 1

    (artifact,) = check_captured(fn, vector)
    assert task_names(artifact)[1] == "backend_tests.scale_"
    assert len(artifact.tasks) == 3
    assert artifact.memory["copied_bytes_per_replay"] == 0


@torch.library.custom_op("backend_tests::sin_cos_", mutates_args=("sine", "cosine"))
def sin_cos_(sine: torch.Tensor, cosine: torch.Tensor, x: torch.Tensor) -> None:
    sine.copy_(x.sin())
    cosine.copy_(x.cos())


@pytest.mark.feature("7.05")
@pytest.mark.parametrize("create", [torch.empty_like, torch.zeros_like, lambda x: x.new_ones(4)])
def test_writes_to_equal_new_tensors_are_in_place(create) -> None:
    def fn(x):
        sine, cosine = create(x), create(x)
        sin_cos_(sine, cosine, x)
        return sine + cosine

    (artifact,) = check_captured(fn, vector)
    assert artifact.memory["copied_bytes_per_replay"] == 0
    assert "aten.clone" not in task_names(artifact)


@pytest.mark.feature("7.05")
def test_writes_to_an_input_are_in_place() -> None:
    def fn(x):
        scale_(x, 3.0)
        return x + 1

    (artifact,) = check_captured(fn, vector)
    assert len(artifact.tasks) == 2
    assert artifact.memory["copied_bytes_per_replay"] == 0


@pytest.mark.feature("7.05")
def test_writes_to_overlapping_views() -> None:
    def of_input(x):
        scale_(x[1:], 3.0)
        scale_(x[:2], 2.0)
        return x + 1

    def of_temporary(x):
        y = x * 2
        scale_(y[1:], 3.0)
        scale_(y[:2], 2.0)
        return y.flip(0), y

    check_captured(of_input, vector)
    torch._dynamo.reset()
    check_captured(of_temporary, lambda: (torch.randn(3, 3),))


@pytest.mark.feature("7.05")
def test_lists_of_written_tensors() -> None:
    def fn(x, y):
        z = x.clone()
        out = accumulate_(z, [y])
        return out + z, y * 2

    check_captured(fn, lambda: (torch.randn(3), torch.randn(3)))


def test_the_old_value_survives_a_write() -> None:
    def fn(x):
        y = x * 2
        old = y.clone()
        scale_(y, 3.0)
        return old, y, old + y

    check_captured(fn, vector)


def test_strings_devices_and_lists_of_sizes() -> None:
    def fn(x):
        a, b = any_device(x, "name", x.device, [x.shape[0] // 2, 2])
        return a + b

    check_captured(fn, vector, lambda: (torch.randn(8),), dynamic=True)


def test_autograd_of_a_custom_operator() -> None:
    @torch.library.custom_op("backend_tests::cube", mutates_args=())
    def cube(x: torch.Tensor) -> torch.Tensor:
        return x**3

    cube.register_fake(lambda x: torch.empty_like(x))
    cube.register_autograd(
        lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )

    def fn(x):
        return (cube(x * 2) + 1).sum()

    with torch.enable_grad():
        x = torch.randn(3, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        fn(x).backward()
        compile_ex(fn)(y).backward()
    assert torch.equal(x.grad, y.grad)


def test_operators_of_a_library_without_a_python_wrapper() -> None:
    with torch.library._scoped_library("backend_tests_raw", "FRAGMENT") as library:
        library.define("twice(Tensor x, *, Scalar? bias=None, ScalarType? dtype=None) -> Tensor")
        library.impl("twice", lambda x, bias=None, dtype=None: x * 2 + (bias or 0), "CPU")
        torch.library.register_fake(
            "backend_tests_raw::twice", lambda x, bias=None, dtype=None: torch.empty_like(x), lib=library
        )
        twice = torch.ops.backend_tests_raw.twice
        check(lambda x: twice(x) + twice(x, bias=3) + twice(x, dtype=torch.float32, bias=0.5), vector)


FRESH = """
import sys
import torch

@torch.library.custom_op("fresh::scale_", mutates_args=("x",))
def scale_(x: torch.Tensor, factor: float) -> None:
    x.mul_(factor)

def fn(x):
    scale_(x, 2.0)
    return x + 1

with torch.no_grad():
    print(torch.compile(fn, backend="npugraph_ex")(torch.ones(3)).tolist())
unwanted = ("fx_passes.post_grad", "fx_passes.reinplace", "pattern_matcher", "npugraph.scope")
print([name for name in sys.modules if name.endswith(unwanted)])
"""


@pytest.mark.feature("2.14")
def test_operators_that_write_need_no_part_of_inductor() -> None:
    run = run_python("-c", FRESH)
    assert run.stdout.splitlines() == ["[3.0, 3.0, 3.0]", "[]"], run.stderr


@pytest.mark.feature("2.14")
@pytest.mark.parametrize("part", [slice(1, 3), (slice(None), slice(0, 2)), slice(None, None, 2)])
def test_parts_of_inputs_are_written_where_they_stand(part) -> None:
    def fn(x):
        scale_(x[part], 3.0)
        return x + 1

    (artifact,) = check_captured(fn, lambda: (torch.randn(4, 6),))
    assert artifact.memory["copied_bytes_per_replay"] == 0


@pytest.mark.feature("2.14")
def test_inputs_that_are_parts_are_written_where_they_stand() -> None:
    """The same holds for strided inputs, and for inputs that begin behind the start of their memory."""

    def fn(x):
        scale_(x, 3.0)
        return x + 1

    for make in (lambda: (torch.randn(4, 6)[:, ::2],), lambda: (torch.randn(4, 6).t(),), lambda: (torch.randn(8)[3:],)):
        torch._dynamo.reset()
        (artifact,) = check_captured(fn, make)
        assert artifact.memory["copied_bytes_per_replay"] == 0


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    """A library with an operator that has a kernel for CPU and no Meta function."""
    with torch.library._scoped_library("backend_tests_meta", "DEF") as made:
        made.define("twice(Tensor x) -> Tensor")
        made.impl("twice", lambda x: x * 2, "CPU")
        yield made


BACKENDS = pytest.mark.parametrize("backend", ["npugraph_ex", torchair.get_npu_backend()], ids=["ex", "ge"])


@BACKENDS
def test_an_operator_without_a_meta_function_is_named(backend, library) -> None:
    """Without ``fullgraph`` the graph breaks there."""

    def fn(x):
        return torch.ops.backend_tests_meta.twice(x.sin()) + 1

    torch._dynamo.reset()
    with pytest.raises(Unsupported, match=r"unsupported operator: backend_tests_meta\.twice\.default"):
        torch.compile(fn, backend=backend, fullgraph=True)(torch.ones(3))
    torch._dynamo.reset()
    x = torch.randn(3)
    torch.testing.assert_close(torch.compile(fn, backend=backend)(x), fn(x))


@BACKENDS
def test_a_meta_function_that_returns_a_tensor_of_another_device_is_named(backend, library) -> None:
    library.impl("twice", lambda x: torch.empty(x.shape), "Meta")
    torch._dynamo.reset()
    with pytest.raises(TorchRuntimeError, match=r"backend_tests_meta\.twice.*device must be `meta`, got cpu"):
        torch.compile(lambda x: torch.ops.backend_tests_meta.twice(x), backend=backend)(torch.ones(3))


@pytest.mark.feature("7.08")
def test_a_rule_replaces_operators_by_one_of_the_user(caplog) -> None:
    """In GE mode, where it has no converter, it then runs eagerly."""

    def written_out(x, y):
        return torch.neg(x) * 3 - y

    @torch.library.custom_op("backend_tests::fused", mutates_args=())
    def fused(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * -3 - y

    fused.register_fake(lambda x, y: torch.empty_like(x))
    rules = npugraph_ex.replacements()
    npugraph_ex.register_replacement(written_out, lambda x, y: fused(x, y), (torch.empty(2), torch.empty(2)))
    (rule,) = (rule for rule in npugraph_ex.replacements() if rule not in rules)
    try:
        (artifact,) = check(lambda x: written_out(x, x + 1) * 2, vector)
        torch._dynamo.reset()
        x = torch.randn(5)
        ge = torch.compile(lambda x: written_out(x, x + 1) * 2, backend=torchair.get_npu_backend())
        torch.testing.assert_close(ge(x), written_out(x, x + 1) * 2)
    finally:
        rule.remove()
    assert "torch.ops.backend_tests.fused.default ge_converter is not implemented!" in caplog.text
    assert "backend_tests.fused" in task_names(artifact)
    assert [made.rule for made in artifact.replacements] == [rule.name]
