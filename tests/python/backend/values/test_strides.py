# SPDX-License-Identifier: Apache-2.0
"""Results have the strides of eager, for any layout of the inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import npugraph
from tests.python import layouts
from tests.python.backend.checks import assert_same, check, compile_ex, shared_memory
from tests.python.op_samples import OPERATORS, UNCOMPARED


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def rows():
    return (torch.randn(4, 6),)


def columns():
    return (torch.randn(6, 4).t(),)


def image():
    return (torch.randn(2, 3, 4, 5),)


def channels_last():
    return (torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),)


def transposed():
    return (torch.randn(2, 4, 3, 5).transpose(1, 2),)


def sliced():
    return (torch.randn(4, 3, 4, 10)[::2, :, :, ::2],)


def elementwise(x):
    return x.sin(), x + 1, x * x, torch.nn.functional.relu(x), x > 0, torch.where(x > 0, x, -x), x.to(torch.float64)


def orders(x):
    return (
        x.permute(0, 2, 3, 1).cos(),
        x.transpose(1, 2).reshape(2, -1),
        x.flatten(1),
        x.contiguous(),
        x.clone(),
        x.mT + 1,
    )


def reductions(x):
    return (
        x.sum(1, keepdim=True),
        x.mean((2, 3)),
        x.amax(0),
        x.softmax(1),
        x.cumsum(2),
        torch.linalg.vector_norm(x, dim=-1),
    )


def joins(x):
    return (
        torch.cat([x, x + 1], 1),
        torch.stack([x, x]),
        x.flip(2),
        x.roll(1, 2),
        x.roll((1, 2), (0, 1)),
        torch.nn.functional.pad(x, (1, 1)),
    )


def creations(x):
    return (
        torch.empty_like(x).fill_(1),
        torch.zeros_like(x),
        x.new_ones(x.shape),
        torch.full_like(x, 2, dtype=torch.int32),
    )


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fn", [elementwise, orders, reductions, joins, creations])
def test_results_have_the_strides_of_eager_in_any_layout(fn, dynamic) -> None:
    check(fn, image, channels_last, transposed, sliced, rounds=1, exact=False, dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
def test_turned_indices(dynamic: bool) -> None:
    def fn(x):
        i = x % 3
        return x[i], x[:, i], x[i[:2]][..., None], x[i, i]

    def turned(n: int) -> Callable[[], tuple[torch.Tensor]]:
        return lambda: (torch.arange(3 * n).view(3, n).t(),)

    check(fn, turned(4), turned(5), dynamic=dynamic)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("trains", [False, True])
def test_copies_of_what_fake_tensors_take_for_contiguous(trains: bool, dynamic: bool) -> None:
    def make(n: int) -> tuple[torch.Tensor, torch.Tensor]:
        turned = torch.arange(8.0 * n).view(1, n, 4, 2).movedim(-1, 0)
        return turned.clone().requires_grad_(trains), turned.long() % 2

    def fn(x, i):
        return x.unflatten(2, (-1, 1))[i].mT.contiguous()

    with torch.set_grad_enabled(trains):
        compiled = compile_ex(fn, dynamic=dynamic)
        for n in (4, 5):
            assert_same(compiled(*make(n)), fn(*make(n)))


def test_masks_beside_indices() -> None:
    mask = torch.tensor([[True, False], [False, True], [True, False]])

    def fn(x, i):
        return x[mask, i]

    check(fn, lambda: (torch.randn(3, 2, 4), torch.tensor([2])))


def test_convolutions_have_the_strides_of_eager() -> None:
    conv = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    norm = torch.nn.BatchNorm2d(4).eval()

    def fn(x):
        return torch.nn.functional.max_pool2d(norm(conv(x)), 2)

    check(fn, channels_last, image, sliced)


def test_results_of_expanded_tensors_have_the_strides_of_eager() -> None:
    def fn(x):
        y = x.expand(4, 3)
        return y, y + 1, y.sin(), y.clone(), torch.empty_like(y).fill_(1), y.contiguous(), y.t() * 2

    check(fn, lambda: (torch.randn(3),))


def test_mixed_layouts() -> None:
    def fn(x, y):
        return x + y, y + x, torch.where(x > y, x, y), torch.addcmul(x, x, y), x * y.contiguous()

    check(fn, lambda: (torch.randn(3, 4), torch.randn(4, 3).t()), lambda: (torch.randn(4, 3).t(), torch.randn(1, 4)))


def unlike_fake_tensors(x):
    """Operators of which fake tensors have other strides than eager."""
    whole = (x * 4).round()
    return (
        torch.copysign(x, torch.tensor(-1.0)),
        torch.floor_divide(whole, torch.tensor(2.0)),
        torch.div(whole, 2, rounding_mode="floor"),
        torch.div(whole, x.exp(), rounding_mode="trunc"),
        2**x,
        torch.heaviside(x, x),
        torch.logaddexp(x, x[:1]),
        torch.ldexp(x, x.sign()),
        torch.isin(whole, whole[0]),
        torch.complex(x, x).angle(),
        torch.nn.functional.logsigmoid(x),
    )


def lines(x):
    x = x.flatten(2) if x.dim() > 2 else x[None]
    return torch.nn.functional.interpolate(x, 3), torch.nn.functional.interpolate(x, 9, mode="nearest-exact")


def losses(x):
    of = torch.nn.functional.binary_cross_entropy
    x = x.sigmoid()
    return [of(x, x.round(), reduction=reduction) for reduction in ("none", "mean", "sum")]


def products_of_vectors(x):
    return torch.addr(x, x[:, 0], x[0], beta=0), torch.addr(x, x[:, 0], x[0]), torch.addmv(x[:, 0], x, x[0], beta=0)


def norms(x):
    batch_norm, group_norm = torch.nn.functional.batch_norm, torch.nn.functional.group_norm
    return (
        batch_norm(x, None, None, training=True),
        batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])),
        batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1]), training=True),
        group_norm(x, 1),
        torch.nn.functional.layer_norm(x, x.shape[1:]),
    )


@pytest.mark.each_value
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fn", [unlike_fake_tensors, norms, lines, losses])
def test_results_unlike_fake_tensors(fn, dynamic: bool) -> None:
    check(fn, image, channels_last, transposed, sliced, columns, rounds=1, exact=False, dynamic=dynamic)


@pytest.mark.parametrize(
    ("sizes", "strides"),
    [((1, 4, 2, 1), (4, 1, 4, 1)), ((4, 1, 3, 3), (9, 1, 3, 1)), ((1, 3, 3, 1, 3), (27, 1, 9, 7, 3))],
)
@pytest.mark.parametrize("trains", [False, True])
def test_norms_of_sizes_of_one(trains: bool, sizes: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """Strides of dimensions of size 1 say which format a tensor suggests, and not in which one it is contiguous."""
    x = torch.arange(100.0).as_strided(sizes, strides).requires_grad_(trains)

    def found(function: Callable[..., Any]) -> Any:
        return layouts.with_gradients(function, (x,))

    with torch.set_grad_enabled(trains):
        assert_same(found(compile_ex(norms)), found(norms), exact=False)


@pytest.mark.parametrize("dynamic", [False, True])
def test_products_of_vectors(dynamic: bool) -> None:
    check(products_of_vectors, rows, columns, rounds=1, exact=False, dynamic=dynamic)


def test_angles_of_spectra() -> None:
    def fn(x):
        return torch.stft(x, 16, return_complex=True).angle()

    check(fn, lambda: (torch.randn(2, 64),), exact=False)


def with_gradients(x):
    return (
        torch.copysign(x, x),
        torch.complex(x, x).angle(),
        torch.nn.functional.logsigmoid(x),
        2**x,
        torch.nn.functional.hardshrink(x, 0.3),
        torch.nn.functional.softshrink(x, 0.3),
    )


@pytest.mark.each_value
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fn", [with_gradients, norms])
@pytest.mark.parametrize("make", [transposed, columns])
def test_gradients_unlike_fake_tensors(make, fn, dynamic: bool) -> None:
    """Results behind which something relies on the strides: ``as_strided`` reads other elements otherwise."""

    def first_elements(x):
        return [one.as_strided((6,), (1,)) for one in fn(x)]

    with torch.enable_grad():
        (x,) = make()
        x.requires_grad_()
        compiled, eager = (one(x) for one in (compile_ex(first_elements, dynamic=dynamic), first_elements))
        assert_same(compiled, eager, exact=False)
        of = [[one for one in results if one.requires_grad] for results in (compiled, eager)]
        grads = [torch.autograd.grad(one, x, list(map(torch.ones_like, one))) for one in of]
    assert_same(*grads, exact=False)


# Their functional forms give new tensors other strides.
WRITES: dict[str, Callable[..., torch.Tensor]] = {
    "masked_fill_": lambda y, z: y.masked_fill_(z > 0, 0.0),
    "masked_scatter_": lambda y, z: y.masked_scatter_(z > 0, z),
    "index_add_": lambda y, z: y.index_add_(1, torch.arange(3), z),
    "index_copy_": lambda y, z: y.index_copy_(1, torch.arange(3), z),
    "scatter_": lambda y, z: y.scatter_(1, torch.zeros_like(z, dtype=torch.long), z),
    "scatter_add_": lambda y, z: y.scatter_add_(1, torch.zeros_like(z, dtype=torch.long), z),
    "cumsum_": lambda y, z: y.cumsum_(1),
    "tril_": lambda y, z: y.tril_(),
    "renorm_": lambda y, z: y.renorm_(2, 0, 1.0),
    "all of it, turned": lambda y, z: y.transpose(1, 2).masked_fill_(z.transpose(1, 2) > 0, 0.0),
    "turned itself": lambda y, z: y.transpose_(0, 0).masked_fill_(z > 0, 0.0),
    "a view of it": lambda y, z: y[:, 1:].masked_fill_(z[:, 1:] > 0, 0.0),
    "twice": lambda y, z: y.masked_fill_(z > 0, 0.0).tril_(),
    "the first of two": lambda y, z: torch.sort(z, 1, out=(y.detach(), torch.empty_like(z, dtype=torch.int64))),
}


@pytest.mark.each_value
@pytest.mark.parametrize(("trains", "dynamic"), [(False, False), (True, True)])
@pytest.mark.parametrize("name", WRITES)
def test_writes_leave_strides(name: str, trains: bool, dynamic: bool) -> None:
    def fn(x, z):
        y = x * 1
        WRITES[name](y, z)
        return y, y * 2, y.as_strided((7,), (1,)) + 1

    with torch.set_grad_enabled(trains):
        compiled = compile_ex(fn, dynamic=dynamic)
        for make in (channels_last, transposed):
            (x,), z = make(), torch.randn(2, 3, 4, 5)
            x.requires_grad_(trains)
            assert_same(compiled(x, z), fn(x, z), exact=False)


@pytest.mark.parametrize("write", [torch.Tensor.tril_, torch.Tensor.triu_])
def test_triangles_with_a_batch_dimension_of_size_one(write: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """The out-variants of ``tril`` and ``triu`` step from matrix to matrix by the stride of a dimension of size 1."""

    def fn(x):
        windows = x.unfold(0, 2, 1)
        write(x)
        return windows

    check(fn, lambda: (torch.randn(1, 4, 4, 2).movedim(-1, 0),), rounds=1, aliases=True)


@pytest.mark.parametrize("dynamic", [False, True])
def test_results_written_to_out_arguments(dynamic: bool) -> None:
    def fn(x):
        rows = x.contiguous()
        return torch.mul(x, x, out=rows), torch.exp(x, out=x.contiguous().double()), rows.t() + 1

    check(fn, columns, lambda: (torch.randn(5, 4).t(),), dynamic=dynamic, exact=False)


# Some are views of x where x is dense, or has the strides of new values.
OF_WRITTEN: dict[str, Callable[..., Any]] = {
    "a column and turned": lambda x: (x.narrow(1, x.shape[1] // 2, 1), x.t()),
    "flat": lambda x: x.reshape(-1),
    "a flat copy": lambda x: x.flatten().contiguous(),
    "parts of copies": lambda x: (x.flatten().contiguous().reshape(-1, 1), x.contiguous()[1:], x.t().reshape(-1)[1:]),
    "itself": lambda x: x,
}


@pytest.mark.each_value
@pytest.mark.parametrize(("trains", "dynamic"), [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("name", OF_WRITTEN)
@pytest.mark.parametrize("write", [lambda x: x.mul_(2), lambda x: x.cumsum_(0)], ids=["mul_", "cumsum_"])
def test_views_of_written_inputs_with_gaps(
    write: Callable[..., torch.Tensor], name: str, trains: bool, dynamic: bool
) -> None:
    """AOTAutograd takes places of elements from the strides of the new values where sizes are symbolic."""

    def fn(x):
        results = OF_WRITTEN[name](write(x))
        return results, x + 1

    with torch.set_grad_enabled(trains):
        compiled = compile_ex(fn, dynamic=dynamic)
        for n in (5, 4):
            around = torch.randn(3, 2 * n, requires_grad=trains)
            given, wanted = around.clone(), around.clone()
            results, expected = compiled(given[:, ::2]), fn(wanted[:, ::2])
            assert_same(results, expected)
            assert_same(given, wanted)
            assert shared_memory([given, results]) == shared_memory([wanted, expected])


# Results that keep the gaps of x.
WITH_GAPS: dict[str, Callable[..., torch.Tensor]] = {
    "slice_scatter": lambda x: x.slice_scatter(x[:1], 0, 1, 2),
    "select_scatter": lambda x: x.select_scatter(x[0], 0, 1),
    "diagonal_scatter": lambda x: x.diagonal_scatter(x.diagonal()),
    "empty_strided": lambda x: torch.empty_strided(x.shape, x.stride()).copy_(x),
    "new_empty_strided": lambda x: x.new_empty_strided(x.shape, x.stride()).copy_(x),
}


@pytest.mark.each_value
@pytest.mark.parametrize(("trains", "dynamic"), [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("name", WITH_GAPS)
def test_writes_leave_gaps_of_results(name: str, trains: bool, dynamic: bool) -> None:
    def fn(x):
        y = WITH_GAPS[name](x).mul_(2)
        z = WITH_GAPS[name](x)
        z[1:].fill_(3)
        return y, z, z.index_fill(1, torch.tensor([0]), 4).relu_()

    with torch.set_grad_enabled(trains):
        compiled = compile_ex(fn, dynamic=dynamic)
        for n in (4, 5):
            x = torch.randn(3, 2 * n)[:, ::2].requires_grad_(trains)
            assert_same(compiled(x), fn(x))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("fn", [lambda x: x.cumsum_(0) * 2, lambda x: (x.cumsum_(0) * 2, x)], ids=["new", "itself"])
def test_new_values_of_a_column_need_no_matrix(fn: Callable[..., Any], dynamic: bool) -> None:
    npugraph.reset()
    compiled = compile_ex(fn, dynamic=dynamic)
    compiled(torch.randn(256, 256)[:, 0])
    assert npugraph.artifacts()[-1].memory["arena_bytes"] <= 4 * 256 * 4


@pytest.mark.each_value
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("how", "rank"),
    [
        *(("nearest", rank) for rank in (3, 4, 5)),
        *(("nearest-exact", rank) for rank in (3, 4, 5)),
        *(("linear", 3), ("bilinear", 4), ("bicubic", 4), ("trilinear", 5)),
    ],
)
def test_gradients_of_enlarged_images(how: str, rank: int, dynamic: bool) -> None:
    def fn(x):
        return torch.nn.functional.interpolate(x, scale_factor=2, mode=how)

    compiled = compile_ex(fn, dynamic=dynamic)
    with torch.enable_grad():
        for lay_out in (layouts.channels_last, layouts.turned):
            x = lay_out(torch.randn([2, 3, 4, 5, 2][:rank])).requires_grad_()
            results = compiled(x), fn(x)
            assert_same(*results, exact=False)
            assert_same(*(torch.autograd.grad(y, x, torch.ones_like(y)) for y in results), exact=False)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_kernels_that_prefer_other_strides(mode: str) -> None:
    """Out-variants give memory for their result other strides, where sizes that the graph finds hide the format."""

    def fn(x):
        rows = x.flatten(1).abs().sum(1).sign().nonzero()[:, 0]
        return torch.nn.functional.pad(x[rows], (1, 1, 1, 1), mode)

    compiled = compile_ex(fn)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for _ in range(2):
            (x,) = channels_last()
            torch.testing.assert_close(compiled(x), fn(x))


NAMES = sorted(name for name in set(OPERATORS) - set(UNCOMPARED) if OPERATORS[name].supported_dtypes("cpu"))
PARTS = 16


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS))
def test_all_operators_in_all_layouts(part: int) -> None:
    with torch.enable_grad():
        found = [difference for name in NAMES[part::PARTS] for difference in layouts.compare_layouts(name)]
    assert not found, "\n".join(found)
