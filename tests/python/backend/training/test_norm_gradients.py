# SPDX-License-Identifier: Apache-2.0
"""Gradients of layer normalisation and of embeddings: as accurate as eager's, without an operator of torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import npugraph
from tests.python.backend.checks import assert_same, compile_ex
from tests.python.backend.training.gradient_errors import errors, gradients, runs_operator


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("sizes", "normal"), [((3, 50, 80), 1), ((200, 6, 10), 2), ((33, 40), 1), ((700,), 1)])
@pytest.mark.parametrize("affine", ["both", "weight", "none"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_layer_norm_is_as_accurate_as_eager(dtype, sizes, normal, affine, dynamic) -> None:
    shape = sizes[-normal:]
    weight = None if affine == "none" else torch.randn(shape)
    bias = torch.randn(shape) if affine == "both" else None
    given = [torch.randn(sizes) * 3 + 1, weight, bias]

    def norm(x, w, b):
        return F.layer_norm(x, x.shape[-normal:], w, b)

    own, eager = gradients(compile_ex(norm, dynamic=dynamic), given, dtype), gradients(norm, given, dtype)
    exact = gradients(norm, given, torch.float64)
    assert [each.dtype for each in own] == [each.dtype for each in eager]
    assert all(a <= 2 * b + 1e-6 for a, b in zip(errors(own, exact), errors(eager, exact), strict=True))
    assert not runs_operator("native_layer_norm_backward")


@pytest.mark.parametrize(("wanted", "rows"), [("x", 40), ("weight", 40), ("x", 0), ("all", 0)])
def test_some_gradients_of_layer_norm(wanted, rows) -> None:
    def run(compiled: bool) -> list[torch.Tensor | None]:
        torch.manual_seed(0)
        x, weight, bias = torch.randn(rows, 64), torch.randn(64), torch.randn(64)
        for name, each in (("x", x), ("weight", weight), ("bias", bias)):
            each.requires_grad_(wanted in (name, "all"))

        def norm(x, w, b):
            return F.layer_norm(x, [64], w, b)

        (compile_ex(norm) if compiled else norm)(x, weight, bias).square().sum().backward()
        return [x.grad, weight.grad, bias.grad]

    assert_same(run(True), run(False), exact=False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("padding", "by_frequency"), [(None, False), (3, False), (None, True)])
@pytest.mark.parametrize("places", [(), (7,), (3, 50)])
def test_embeddings_are_eagers(dtype, padding, by_frequency, places) -> None:
    indices = torch.randint(0, 11, places)

    def look_up(table):
        return F.embedding(indices, table * 2, padding, scale_grad_by_freq=by_frequency)

    given = [torch.randn(11, 20)]
    assert_same(gradients(compile_ex(look_up), given, dtype), gradients(look_up, given, dtype))
    kernel_takes = not by_frequency and dtype != torch.bfloat16
    assert runs_operator("embedding_dense_backward") != kernel_takes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("order", ["embedding first", "embedding last", "twice"])
def test_tied_embeddings_add_only_the_rows(dtype, padding, order) -> None:
    indices = torch.randint(0, 11, (3, 50))

    def model(table, x):
        looked_up = F.embedding(indices, table, padding)
        if order == "embedding first":
            return (looked_up + x) @ table.T
        if order == "twice":
            looked_up = looked_up * F.embedding(indices.flip(0), table, padding)
        return (x @ table.T) @ table + looked_up

    given = [torch.randn(11, 20), torch.randn(3, 50, 20)]
    own, eager = gradients(compile_ex(model), given, dtype), gradients(model, given, dtype)
    exact = gradients(model, given, torch.float64)
    assert all(a <= 2 * b + 1e-6 for a, b in zip(errors(own, exact), errors(eager, exact), strict=True))
    if order != "twice" and dtype == torch.float32:
        assert not any("embedding_dense_backward" in task.name for task in npugraph.artifacts()[-1].tasks)
