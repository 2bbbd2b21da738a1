# SPDX-License-Identifier: Apache-2.0
"""Products with weights that torch packs in 4 bits, as generated code, against eager, ATen's task and fp64."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

import npugraph
from tests.python.backend.checks import compile_ex

GENERATE = {"generate_code": True}


def tasks() -> list:
    return npugraph.artifacts()[-1].tasks


def make_weights(n: int, k: int, group: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns packed weights, their scales and zeros, and the same weights in fp64."""
    codes = torch.randint(0, 16, (n, k), dtype=torch.int32)
    scales = torch.stack([torch.rand(k // group, n) / 20 + 0.01, torch.randn(k // group, n) / 10], dim=2).to(dtype)
    scale, zero = (scales[:, :, i].double().T.repeat_interleave(group, dim=1) for i in (0, 1))
    return torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 2), scales, (codes - 8).double() * scale + zero


def product(x, packed, group: int, scales):
    return torch.ops.aten._weight_int4pack_mm_for_cpu(x, packed, group, scales)


def assert_no_worse(got: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> None:
    assert got.dtype == eager.dtype
    assert got.stride() == eager.stride()
    error, of_eager = ((t.double() - exact).abs().max().item() for t in (got, eager))
    assert error <= max(1e-5 * exact.abs().max().item(), 2 * of_eager)


@pytest.mark.each_value
@pytest.mark.parametrize("rows", [1, 7, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("n", "group"), [(128, 32), (80, 64), (48, 128), (64, 256)])
def test_weights_of_4_bits(rows: int, dtype: torch.dtype, n: int, group: int) -> None:
    torch.manual_seed(0)
    x, bias = torch.randn(rows, 512).to(dtype), torch.randn(n).to(dtype)
    packed, scales, weights = make_weights(n, 512, group, dtype)

    def fn(x, packed, scales, bias):
        return product(x, packed, group, scales), torch.relu(product(x * 2, packed, group, scales) + bias)

    with torch.no_grad():
        aten = compile_ex(fn, options={"generate_code": False})(x, packed, scales, bias)
        assert "aten._weight_int4pack_mm_for_cpu" in {task.name for task in tasks()}
        torch._dynamo.reset()
        got = compile_ex(fn, options=GENERATE)(x, packed, scales, bias)
        eager = fn(x, packed, scales, bias)
    assert [task.kind for task in tasks()].count("matmul") == 2
    first = x.double() @ weights.T
    for mine, theirs, right in zip(got, aten, (first, torch.relu(first * 2 + bias.double())), strict=True):
        assert_no_worse(mine, theirs, right)
    assert torch.equal(eager[0], aten[0])


def test_any_number_of_rows_in_one_program() -> None:
    torch.manual_seed(0)
    packed, scales, weights = make_weights(96, 256, 32, torch.bfloat16)
    compiled = compile_ex(lambda x: product(x, packed, 32, scales).float(), options=GENERATE)
    for rows in (7, 2, 64, 13):
        x = torch.randn(rows, 256).bfloat16()
        torch._dynamo.mark_dynamic(x, 0)
        with torch.no_grad():
            got = compiled(x)
            eager = product(x, packed, 32, scales).float()
        assert_no_worse(got, eager, x.double() @ weights.T)
    assert [task.kind for task in tasks()] == ["matmul"]
    assert len(npugraph.artifacts()) == 1


def test_scales_that_torch_would_read_elsewhere_stay_with_it() -> None:
    """Strided scales get no generated code, because it would read them as if they were dense."""
    packed, scales, _ = make_weights(64, 128, 32, torch.float32)
    strided = torch.zeros(4, 64, 4)[:, :, :2].copy_(scales)
    x = torch.randn(3, 128)
    with torch.no_grad():
        got = compile_ex(lambda x, s: product(x, packed, 32, s), options=GENERATE)(x, strided)
        assert torch.equal(got, product(x, packed, 32, strided))
    assert [task.kind for task in tasks()] == ["aten"]
    assert tasks()[0].reason.startswith("no generated code")


ON_OTHER_PROCESSORS = """
import torch, npugraph
from tests.python.backend.generated.test_generated_int4 import make_weights, product
torch.manual_seed(0)
packed, scales, weights = make_weights(112, 64, 32, torch.float32)
x = torch.randn(5, 64)
got = torch.compile(lambda x: product(x, packed, 32, scales), backend="npugraph_ex", options={"generate_code": True})(x)
assert [task.kind for task in npugraph.artifacts()[-1].tasks] == ["matmul"]
assert (got - x.double() @ weights.T).abs().max() < 1e-4
"""


def test_weights_that_torch_packs_for_other_processors() -> None:
    subprocess.run(
        [sys.executable, "-c", ON_OTHER_PROCESSORS], env=os.environ | {"ATEN_CPU_CAPABILITY": "avx2"}, check=True
    )
