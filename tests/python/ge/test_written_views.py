# SPDX-License-Identifier: Apache-2.0
"""Operators of users that write members of lists and views of other tensors, computed by torch and by a library: in
place in one graph of GE."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch

import npugraph
import torchair
from npugraph.ge.prototypes import register_prototypes
from npugraph.operator_steps.code import converter_code
from tests.python import sample_kernels  # noqa: F401
from tests.python.ge.converted import check_values

library = torch.library.Library("written_views", "DEF")


def scale_all(xs: list[torch.Tensor], factor: float) -> None:
    for x in xs:
        x.mul_(factor)


library.define("wv_scale_(Tensor(a!) x, float factor) -> ()")
library.impl("wv_scale_", lambda x, factor: scale_all([x], factor), "CPU")
library.impl("wv_scale_", lambda x, factor: None, "Meta")
library.define("wv_scale_all_(Tensor(a!)[] xs, float factor) -> ()")
library.impl("wv_scale_all_", scale_all, "CPU")
library.impl("wv_scale_all_", lambda xs, factor: None, "Meta")
library.define("wv_pasted_(Tensor(a!)[] xs, float factor) -> ()")
library.impl("wv_pasted_", scale_all, "CPU")
library.impl("wv_pasted_", lambda xs, factor: None, "Meta")
library.define("wv_scale_both_(Tensor(a!) x, Tensor(b!)[] xs, float factor) -> Tensor")
library.impl("wv_scale_both_", lambda x, xs, factor: scale_all([x, *xs], factor) or x.sum(), "CPU")
library.impl("wv_scale_both_", lambda x, xs, factor: x.new_empty(()), "Meta")


class Ops(NamedTuple):
    scale_: Any
    scale_all_: Any


in_torch = Ops(torch.ops.written_views.wv_scale_, torch.ops.written_views.wv_scale_all_)
in_library = Ops(torch.ops.test_ops.scale_, torch.ops.test_ops.scale_all_)
both_kinds = pytest.mark.parametrize("ops", [in_torch, in_library], ids=["torch", "library"])


@pytest.fixture(autouse=True, scope="module")
def prototypes(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The list of one operator has another name than its argument."""

    def row(op: str, *written: str, new: tuple[str, ...] = ()) -> dict[str, Any]:
        outputs = [
            {"name": name.rstrip("*"), "param_type": "dynamic" if "*" in name else "required", "type": ["float"]}
            for name in (*written, *new)
        ]
        attributes = [{"name": "factor", "param_type": "required", "type": "float"}]
        return {"op": op, "input_desc": outputs[: len(written)], "output_desc": outputs, "attr": attributes}

    rows = [row("WvScale", "x"), row("WvScaleAll", "tensors*"), row("WvScaleBoth", "x", "xs*", new=("total",))]
    path = tmp_path_factory.mktemp("prototypes") / "ops.json"
    path.write_text(json.dumps(rows))
    register_prototypes(path)


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


def compiled(fn: Callable[..., Any], mode: str = "max-autotune", dynamic: bool = False, **options: str) -> Any:
    npugraph.reset()
    config = torchair.CompilerConfig()
    config.mode = mode
    for name, value in options.items():
        setattr(config.debug, name, value)
    return torch.compile(fn, backend=torchair.get_npu_backend(compiler_config=config), dynamic=dynamic)


def check(fn: Callable[..., Any], fast: Callable[..., Any], *x: torch.Tensor) -> None:
    """Compares results, and what is written, with eager mode."""
    mine, theirs = ([part.clone(memory_format=torch.preserve_format) for part in x] for _ in range(2))
    torch.testing.assert_close(fast(*mine), fn(*theirs), check_stride=True)
    for ours, expected in zip(mine, theirs, strict=True):
        assert torch.equal(ours, expected)


def check_in_place(fn: Callable[..., Any], *sizes: tuple[int, ...], dynamic: bool = False) -> None:
    """All of ``fn`` is one graph of GE, with one capture for all calls of a size, and copies nothing."""
    fast = compiled(fn, dynamic=dynamic, missing_converters="error")
    sizes = sizes or ((4, 6),) * 3
    for size in sizes:
        check(fn, fast, torch.randn(size))
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["captures"] == len(set(sizes))
    assert artifact.memory["copied_bytes_per_replay"] == 0


def slice_of_an_input(ops: Ops, x: torch.Tensor) -> torch.Tensor:
    ops.scale_(x[1:], 3.0)
    return x + 1


def row_of_an_input(ops: Ops, x: torch.Tensor) -> torch.Tensor:
    ops.scale_(x[1], 3.0)
    return x + 1


def column_of_an_input(ops: Ops, x: torch.Tensor) -> torch.Tensor:
    ops.scale_(x[:, 2], 3.0)
    return x + 1


def part_of_another_shape(ops: Ops, x: torch.Tensor) -> torch.Tensor:
    ops.scale_(x.reshape(-1)[3:7], 3.0)
    return x + 1


def every_other_column(ops: Ops, x: torch.Tensor) -> torch.Tensor:
    ops.scale_(x[:, ::2], 3.0)
    return x + 1


def slice_of_an_intermediate(ops: Ops, x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    ops.scale_(y[1:], 3.0)
    return y + 1


def transposed_intermediate(ops: Ops, x: torch.Tensor) -> Any:
    y = x * 2
    turned, first = y.t(), y[0]
    ops.scale_(turned, 3.0)
    return y + 1, turned * 2, first * 3


def part_of_a_transposed_intermediate(ops: Ops, x: torch.Tensor) -> torch.Tensor:
    y = x.t() * 2
    ops.scale_(y.t().reshape(-1)[2:9], 3.0)
    ops.scale_(y[:, 1], 2.0)
    return y + 1


def several_writes(ops: Ops, x: torch.Tensor) -> Any:
    y = x * 2
    part = y[1:]
    ops.scale_(part, 3.0)
    between = part + 1
    ops.scale_(y[:2], 2.0)
    ops.scale_(x[0], 0.5)
    ops.scale_(x, 2.0)
    return y + 1, part * 2, between


def list_of_tensors(ops: Ops, x: torch.Tensor) -> torch.Tensor:
    y, z = x * 2, x + 1
    ops.scale_all_([y, z, x], 3.0)
    return y + z


def list_of_rows(ops: Ops, x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    ops.scale_all_([y[0], y[2]], 3.0)
    return y + 1


def list_of_columns(ops: Ops, x: torch.Tensor) -> torch.Tensor:
    ops.scale_all_([x[:, 0:2], x[:, 3:5]], 3.0)
    return x + 1


DENSE = [slice_of_an_input, row_of_an_input, part_of_another_shape, slice_of_an_intermediate, list_of_tensors]
DENSE += [part_of_a_transposed_intermediate, several_writes, list_of_rows]
NOT_DENSE = [column_of_an_input, every_other_column, transposed_intermediate, list_of_columns]


@both_kinds
@pytest.mark.feature("6.36", "6.37", "7.05", "7.07")
@pytest.mark.parametrize("fn", DENSE)
def test_what_is_written_is_in_place(fn: Callable[..., Any], ops: Ops) -> None:
    check_in_place(lambda x: fn(ops, x))


@pytest.mark.feature("6.36", "6.37", "7.05")
@pytest.mark.parametrize("fn", NOT_DENSE)
def test_torch_gets_the_strides_of_eager_mode(fn: Callable[..., Any]) -> None:
    check_in_place(lambda x: fn(in_torch, x))


@both_kinds
@pytest.mark.feature("7.05")
@pytest.mark.each_value
@pytest.mark.parametrize("fn", DENSE + NOT_DENSE)
def test_all_modes_agree(fn: Callable[..., Any], ops: Ops) -> None:
    """A kernel that takes dense tensors gets copies of others, in each mode as many bytes."""
    copied = set()
    for mode in ("npugraph_ex", "reduce-overhead", "max-autotune"):
        fast = compiled(lambda x: fn(ops, x), mode)
        for _ in range(2):
            check(lambda x: fn(ops, x), fast, torch.randn(4, 6))
        (artifact,) = npugraph.artifacts()
        copied.add(artifact.memory["copied_bytes_per_replay"])
    assert len(copied) == 1


@both_kinds
@pytest.mark.parametrize("fn", [slice_of_an_input, slice_of_an_intermediate, list_of_tensors])
def test_sizes_may_be_unknown(fn: Callable[..., Any], ops: Ops) -> None:
    check_in_place(lambda x: fn(ops, x), (4, 6), (5, 7), (5, 7), dynamic=True)


@both_kinds
def test_views_that_were_there_before_a_write_see_it(ops: Ops) -> None:
    """In graphs of FX that passes of the user make, a write may stand between a view and its readers."""

    def fn(x: torch.Tensor) -> Any:
        y = x * 2
        turned, first, halves = y.t(), y[0], y.split(2)
        inner = turned[1:4].t()
        old = first + 1
        ops.scale_(halves[1][:, 1:3], 3.0)
        ops.scale_(turned[0], 2.0)
        ops.scale_all_([y[1:], first], 0.5)
        return y + 1, turned * 1, first - 1, halves[0] * 2, halves[1] * 3, inner + 4, old

    check_values(fn, torch.randn(4, 6))


@both_kinds
@pytest.mark.feature("7.05")
def test_parts_of_parameters_are_in_place(ops: Ops) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.arange(12.0).reshape(3, 4))
            self.register_buffer("count", torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            ops.scale_(self.weight[1], 2.0)
            ops.scale_all_([self.count[:2], self.weight[2]], 3.0)
            return x + self.weight[1] * self.count

    ours, theirs = Model(), Model()
    fast = compiled(ours, missing_converters="error")
    for _ in range(3):
        x = torch.randn(4)
        torch.testing.assert_close(fast(x), theirs(x))
        assert all(map(torch.equal, ours.state_dict().values(), theirs.state_dict().values()))
    (artifact,) = npugraph.artifacts()
    assert artifact.memory["copied_bytes_per_replay"] == 0


def test_a_tensor_and_a_list_and_a_result() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        total = torch.ops.written_views.wv_scale_both_(x, [y, y + 1], 3.0)
        return y + total

    check_in_place(fn)


@pytest.mark.feature("6.32")
@pytest.mark.parametrize("fn", [list_of_tensors, list_of_rows])
def test_a_converter_to_paste_writes_in_place(fn: Callable[..., Any], own_converters: None) -> None:
    op = torch.ops.written_views.wv_pasted_
    exec(converter_code(op.default), {"torch": torch, "torchair": torchair})
    check_in_place(lambda x: fn(Ops(in_torch.scale_, op), x))


@both_kinds
@pytest.mark.parametrize(
    "parts", [lambda x: [x[0:3], x[2:4]], lambda x: [x[0], x]], ids=["two parts", "a part and the whole"]
)
def test_tensors_that_overlap_are_written_eagerly(
    parts: Callable[..., Any], ops: Ops, caplog: pytest.LogCaptureFixture
) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        ops.scale_all_(parts(y), 3.0)
        return y + 1

    fast = compiled(fn)
    for _ in range(2):
        check(fn, fast, torch.randn(4, 6))
    assert "its argument xs, which it writes, may share memory with xs" in caplog.text


def test_a_list_without_tensors_is_written_eagerly(caplog: pytest.LogCaptureFixture) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        return torch.ops.written_views.wv_scale_both_(y[1:], [], 3.0) + y

    check(fn, compiled(fn), torch.randn(4, 6))
    assert "its argument xs, which it writes, is a list without tensors" in caplog.text


@both_kinds
def test_a_part_of_an_input_that_is_not_dense_runs_eagerly(ops: Ops, caplog: pytest.LogCaptureFixture) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        ops.scale_(x[1:], 3.0)
        return x + 1

    fast = compiled(fn)
    ours, theirs = torch.ones(4, 6)[:, ::2], torch.ones(4, 6)[:, ::2]
    torch.testing.assert_close(fast(ours), fn(theirs))
    assert torch.equal(ours, theirs)
    assert "ge_converter is not implemented!" in caplog.text
