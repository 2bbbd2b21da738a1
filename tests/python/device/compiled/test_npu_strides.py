# SPDX-License-Identifier: Apache-2.0
"""Compiled results on npu have the strides of eager, for any layout of the arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.python import layouts
from tests.python.backend.checks import assert_same, compile_ex
from tests.python.backend.values import test_strides
from tests.python.device.op_database import REFUSED
from tests.python.device.tensors import to_npu

Calls = dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...] | None]]

# From names to a function, the sizes of its argument, and those of a weight.
CONVOLUTIONS: Calls = {
    "1d": (F.conv1d, (2, 4, 9), (6, 4, 3)),
    "2d": (F.conv2d, (2, 4, 6, 5), (8, 4, 3, 3)),
    "2d of 1 x 1": (F.conv2d, (2, 4, 6, 5), (8, 4, 1, 1)),
    "strided": (lambda x, w: F.conv2d(x, w, stride=2, padding=1), (2, 4, 6, 5), (8, 4, 3, 3)),
    "grouped": (lambda x, w: F.conv2d(x, w, groups=2), (2, 4, 6, 5), (8, 2, 3, 3)),
    "depthwise": (lambda x, w: F.conv2d(x, w, groups=4), (2, 4, 6, 5), (4, 1, 3, 3)),
    "transposed": (F.conv_transpose2d, (2, 4, 6, 5), (4, 6, 3, 3)),
    "3d": (F.conv3d, (2, 3, 4, 5, 6), (4, 3, 2, 2, 2)),
}
OTHERS: Calls = {
    "pixel shuffle": (lambda x: F.pixel_shuffle(x, 2), (2, 8, 3, 5), None),
    "pixel unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (2, 3, 6, 4), None),
    "channel shuffle": (lambda x: F.channel_shuffle(x, 2), (2, 4, 3, 5), None),
    "max pool": (lambda x: F.max_pool2d(x, 2), (2, 4, 6, 8), None),
    "average pool": (lambda x: F.avg_pool2d(x, 2), (2, 4, 6, 8), None),
    "adaptive pool": (lambda x: F.adaptive_avg_pool2d(x, 2), (2, 4, 6, 8), None),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), (2, 4, 3, 5), None),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), (2, 4, 3, 5), None),
    "reflection": (lambda x: F.pad(x, (1, 1, 1, 1), "reflect"), (2, 4, 3, 5), None),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), (2, 4, 3, 5), None),
    "group norm": (lambda x: F.group_norm(x, 2), (2, 4, 3, 5), None),
    "prelu": (lambda x: F.prelu(x, x.new_ones(4)), (2, 4, 3, 5), None),
}
ALL = CONVOLUTIONS | OTHERS


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("name", "dynamic", "trains"),
    [*((name, False, False) for name in ALL), *(("2d", *flags) for flags in ((True, False), (False, True)))],
)
def test_results_for_images_have_the_strides_of_eager(name: str, dynamic: bool, trains: bool) -> None:
    function, sizes, of_weight = ALL[name]

    def fn(*given: torch.Tensor) -> Any:
        made = function(*given)
        return made, made.as_strided((7,), (1,)) * 2  # shows the places of the elements

    compiled = compile_ex(fn, dynamic=dynamic)
    for turn_weight in (False, True)[: 2 if name == "2d" else 1]:
        given = [layouts.channels_last(torch.randn(sizes))]
        if of_weight is not None:
            weight = torch.randn(of_weight)
            given.append(layouts.channels_last(weight) if turn_weight else weight)
        own = [x.requires_grad_(trains) for x in to_npu(given)]
        got, want = compiled(*own), fn(*own)
        assert_same(got, want, exact=False)
        if trains:
            assert_same(*(torch.autograd.grad(one[0].square().sum(), own) for one in (got, want)), exact=False)


@pytest.mark.parametrize("make", [test_strides.transposed])
@pytest.mark.parametrize("fn", [test_strides.norms])
def test_results_unlike_fake_tensors(fn: Callable[..., Any], make: Callable[[], Any]) -> None:
    (x,) = to_npu(make())
    with torch.device("npu"):
        assert_same(compile_ex(fn)(x), fn(x), exact=False)


NAMES = sorted(set(test_strides.NAMES) - set(REFUSED))


@pytest.mark.long
@pytest.mark.parametrize("part", range(test_strides.PARTS))
def test_all_operators_in_all_layouts(part: int) -> None:
    found = []
    with torch.device("npu"):
        for name in NAMES[part :: test_strides.PARTS]:
            found += layouts.compare_layouts(name, to_npu)
    assert not found, "\n".join(found)
