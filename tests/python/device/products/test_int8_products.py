# SPDX-License-Identifier: Apache-2.0
"""Products of int8 matrices are exact where ATen's are not: for operands whose rows or columns are all the same one (a
stride of 0), for single rows that lie as columns, and on processors without AVX-512 VNNI. Such a processor is simulated
by a run of this file as a program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import integers

M, K, N = 32, 64, 48


def int8(*size: int, seed: int = 0) -> torch.Tensor:
    return integers(-128, 128, *size, dtype=torch.int8, seed=seed)


# Both operands as they are stored, and functions that make views of them.
OPERANDS: dict[str, tuple[torch.Tensor, torch.Tensor, Callable[..., Any], Callable[..., Any]]] = {
    "plain": (int8(M, K), int8(K, N, seed=1), lambda x: x, lambda x: x),
    "greatest": (torch.full((M, K), 127).char(), torch.full((N, K), 127).char(), lambda x: x, lambda x: x.t()),
    "one row": (int8(1, K), int8(K, N, seed=1), lambda x: x.expand(M, K), lambda x: x),
    "one row for weights as columns": (int8(1, K), int8(N, K, seed=1), lambda x: x.expand(M, K), lambda x: x.t()),
    "weights of one row": (int8(M, K), int8(1, N, seed=1), lambda x: x, lambda x: x.expand(K, N)),
    "weights of one column": (int8(M, K), int8(K, 1, seed=1), lambda x: x, lambda x: x.expand(K, N)),
    "one column of codes": (int8(M, 1), int8(N, 1, seed=1), lambda x: x, lambda x: x.t()),
    "one row that lies as a column": (int8(K, 1), int8(K, N, seed=1), lambda x: x.t(), lambda x: x),
    "overlapping rows": (int8(1, M + K), int8(K, N, seed=1), lambda x: x.as_strided((M, K), (1, 1)), lambda x: x),
}


def products(x: torch.Tensor, weight: torch.Tensor, of_x: Any, of_weight: Any, scale: torch.Tensor) -> Any:
    x, weight = of_x(x), of_weight(weight)
    scaled = torch_npu.npu_quant_matmul(x, weight, scale, output_dtype=torch.float32)
    return torch._int_mm(x, weight), scaled


def check(call: Callable[..., Any], name: str) -> None:
    x, weight, of_x, of_weight = OPERANDS[name]
    want = of_x(x).double() @ of_weight(weight).double()
    got, scaled = call(x.npu(), weight.npu(), of_x, of_weight, torch.ones(N).npu())
    assert got.dtype == torch.int32
    assert torch.equal(got.cpu().double(), want)
    assert torch.equal(scaled.cpu().double(), want)


def compiled(generate_code: bool) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(products, backend="npugraph_ex", fullgraph=True, options={"generate_code": generate_code})


@pytest.mark.parametrize("name", OPERANDS)
def test_eager_products_are_exact(name: str) -> None:
    check(products, name)


@pytest.mark.parametrize("generate_code", [False, True])
@pytest.mark.parametrize("name", OPERANDS)
def test_compiled_products_are_exact(name: str, generate_code: bool) -> None:
    with torch.no_grad():
        check(compiled(generate_code), name)


def test_views_that_are_arguments_of_graphs() -> None:
    x, weight = int8(1, K).npu().expand(M, K), int8(1, N, seed=1).npu().expand(K, N)
    torch._dynamo.reset()
    got = torch.compile(torch._int_mm, backend="npugraph_ex")(x, weight)
    assert torch.equal(got.cpu().double(), x.cpu().double() @ weight.cpu().double())


def test_into_a_result_and_in_captured_graphs() -> None:
    x, weight = int8(1, K).npu(), int8(K, N, seed=1).npu()
    out = torch.zeros(M, N, dtype=torch.int32).npu()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        torch._int_mm(x.expand(M, K), weight, out=out)
    x.copy_(int8(1, K, seed=2))
    graph.replay()
    assert torch.equal(out.cpu().double(), int8(1, K, seed=2).expand(M, K).double() @ weight.cpu().double())


def test_operands_that_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match="Expected self to be of dimension 2"):
        torch._int_mm(int8(K).npu(), int8(K, N).npu())
    with pytest.raises(RuntimeError, match=r"self.size\(1\) needs to match mat2.size\(0\)"):
        torch._int_mm(int8(M, K).npu(), int8(K + 1, N).npu())


def test_on_a_processor_without_the_instructions() -> None:
    limited = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2", "NPUGRAPH_TARGET": "x86-64-v3"}
    done = subprocess.run([sys.executable, "-m", __name__], env=limited, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    for operands in OPERANDS:
        check(products, operands)
    with torch.no_grad():
        for operands in ("plain", "greatest", "one row for weights as columns"):
            check(compiled(True), operands)
