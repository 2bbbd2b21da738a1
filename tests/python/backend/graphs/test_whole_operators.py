# SPDX-License-Identifier: Apache-2.0
"""Operators that stay whole in graphs, and operators whose real results may differ from those that torch traces."""

from __future__ import annotations

import pytest
import torch

import npugraph
from tests.python.backend.checks import assert_same, check, compile_ex

aten = torch.ops.aten


def image():
    return (torch.randn(2, 3, 5, 7),)


def enlarged(x):
    return torch.nn.functional.interpolate(x.sin(), scale_factor=2, mode="nearest").cos()


@pytest.mark.feature("10.02")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("through_aot", [False, True])
def test_nearest_upsampling_stays_whole(dynamic, through_aot) -> None:
    """This also holds if AOTAutograd traces the graph, as it does for outputs in the memory of inputs."""

    def fn(x):
        return (enlarged(x), x[0]) if through_aot else enlarged(x)

    with torch.no_grad():
        (artifact,) = check(fn, image, dynamic=dynamic, exact=False)
    graph = artifact.graph("import")
    assert graph.count("= aten.upsample_nearest2d(") == 1
    assert "aten.index" not in graph and "aten._unsafe_index" not in graph
    assert ("aot_autograd" in artifact.explain()) == through_aot


@pytest.mark.feature("10.02")
def test_its_gradient_stays_whole() -> None:
    x, own = (image()[0].fill_(0.3).requires_grad_() for _ in range(2))
    compile_ex(enlarged)(x).square().sum().backward()
    enlarged(own).square().sum().backward()
    assert_same(x.grad, own.grad, exact=False)
    backward = next(artifact for artifact in npugraph.artifacts() if artifact.name.endswith("backward"))
    assert "aten.upsample_nearest2d_backward(" in backward.graph("import")


def test_torchs_own_rule_is_there_afterwards() -> None:
    before = dict(aten.upsample_nearest2d.default.py_kernels)
    with torch.no_grad():
        compile_ex(enlarged)(*image())
    assert aten.upsample_nearest2d.default.py_kernels == before != {}


@pytest.mark.feature("10.02")
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: aten._native_batch_norm_legit_no_training(
            x, None, None, x.mean((0, 2, 3)), x.var((0, 2, 3)), 0.1, 1e-5
        ),
        lambda x: aten.native_dropout(x, 0.0, True),
        lambda x: aten.native_dropout_backward(x, x > 0, 2.0),
        lambda x: (
            aten.matmul_backward(x, x, x.transpose(-1, -2), [True, True]) if x.shape[-1] == x.shape[-2] else x * 1
        ),
        lambda x: x.to(torch.zeros(1, dtype=torch.float64)),
        lambda x: x.long().type_as(torch.zeros(1, dtype=torch.int8)),
        lambda x: (x.long() / 3, x.long() / x.long().abs().add(1), torch.div(x, 2, rounding_mode="floor")),
    ],
    ids=["batch_norm", "dropout", "dropout_backward", "matmul_backward", "to_other", "type_as", "div"],
)
def test_results_are_described_as_they_are(fn) -> None:
    """Graphs have the right number, sizes and types of results. The saved statistics of the batch norm have no
    elements, because inference does not compute them."""
    with torch.no_grad():
        check(fn, image, exact=False)


@pytest.mark.each_value
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_an_empty_batch_of_images(mode: str, dynamic: bool) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        by_factor = torch.nn.functional.interpolate(x.sin(), scale_factor=2, mode=mode)
        return by_factor + torch.nn.functional.interpolate(x.cos(), (10, 14), mode=mode)

    def empty() -> tuple[torch.Tensor]:
        return (torch.randn(0, 3, 5, 7),)

    with torch.no_grad():
        check(fn, empty, image, dynamic=dynamic, exact=False)
    x = empty()[0].requires_grad_()
    compile_ex(fn, dynamic=dynamic)(x).sum().backward()
    assert x.grad is not None and x.grad.shape == x.shape
