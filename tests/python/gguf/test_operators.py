# SPDX-License-Identifier: Apache-2.0
"""Operators on blocks: dequantised numbers are those of the gguf package, and generated code computes with them."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

import npugraph
from npugraph.gguf.blocks import FORMATS, dequantise
from npugraph.gguf.modules import QuantisedEmbedding, QuantisedLinear
from npugraph.gguf.operators import round_to_int8

OPTIONS = {"generate_code": True}
COLUMNS = 512


def blocks_of(kind: str, rows: int) -> torch.Tensor:
    """Returns blocks of random codes. Their scales are as large as in models."""
    form = FORMATS[kind]
    generator = torch.Generator().manual_seed(1)
    count = rows * COLUMNS // form.elements
    blocks = torch.randint(0, 256, (count, form.bytes), dtype=torch.uint8, generator=generator)
    halves = (torch.randn(count, 2, generator=generator) / 64).half().view(torch.uint8)
    at = form.bytes - 2 if kind == "q6_k" else 0
    blocks[:, at : at + 2] = halves[:, :2]
    if kind in ("q4_1", "q5_1", "q4_k", "q5_k"):
        blocks[:, 2:4] = halves[:, 2:]
    return blocks.reshape(rows, -1)


def compile_ex(function):
    return torch.compile(function, backend="npugraph_ex", fullgraph=True, options=OPTIONS)


def the_tasks() -> list[str]:
    (artifact,) = npugraph.artifacts()
    return [task.name for task in artifact.tasks]


@pytest.mark.parametrize("kind", FORMATS)
def test_numbers_are_those_of_the_gguf_package(kind: str) -> None:
    blocks = blocks_of(kind, 7)
    want = gguf.dequantize(blocks.numpy(), gguf.GGMLQuantizationType[kind.upper()])
    np.testing.assert_array_equal(dequantise(blocks, kind).numpy(), want)


def test_rounding_to_int8() -> None:
    x = torch.zeros(2, 64)
    x[0, 32:] = torch.linspace(-1, 1, 32)
    rounded = round_to_int8(x)
    assert torch.equal(rounded[1], x[1])
    assert (rounded - x).abs().max() <= 0.5 / 127 + 1e-7
    assert rounded[0, 63] == 1


def activations(rows: int, dtype: torch.dtype, int8: bool) -> torch.Tensor:
    """Returns random activations. For rounding to 8 bits, none is near the middle between two steps, where the last bit
    of a quotient would decide."""
    if not int8:
        return torch.randn(rows, COLUMNS, dtype=dtype)
    steps = torch.randint(-126, 127, (rows, COLUMNS)) + 0.6 * (torch.rand(rows, COLUMNS) - 0.5)
    steps[:, ::32] = 127
    return (steps / 64).to(dtype)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("rows", [1, 5, 40])
@pytest.mark.parametrize(("dtype", "int8"), [(torch.float32, False), (torch.float32, True), (torch.bfloat16, False)])
def test_compiled_products(kind: str, rows: int, dtype: torch.dtype, int8: bool) -> None:
    torch.manual_seed(0)
    linear = QuantisedLinear(torch.nn.Parameter(blocks_of(kind, 130), requires_grad=False), kind, int8=int8)
    x = activations(rows, dtype, int8)
    residual = torch.randn(rows, 130, dtype=dtype)

    def function(x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return torch.relu(linear(x)) + residual

    got = compile_ex(function)(x, residual)
    assert the_tasks() == ["matmul.gguf_linear.relu.add"]
    exact = round_to_int8(x).double() if int8 else x.double()
    weights = dequantise(linear.blocks, kind).double()
    want = torch.relu(exact @ weights.T) + residual.double()
    sizes = exact.abs() @ weights.abs().T + residual.abs().double()
    allowed = 1e-6 if dtype == torch.float32 else 2**-7
    assert ((got.double() - want).abs() <= allowed * sizes).all()


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled_rows(kind: str, dtype: torch.dtype) -> None:
    embedding = QuantisedEmbedding(torch.nn.Parameter(blocks_of(kind, 9), requires_grad=False), kind, dtype)
    compiled = compile_ex(embedding)
    indices = torch.tensor([[3, 0, 8], [8, 2, 2]])
    assert torch.equal(compiled(indices), embedding(indices))
    assert the_tasks() == ["loop.gguf_embedding"]
    for wrong in (-1, 9):
        with pytest.raises((IndexError, RuntimeError), match="index out of range"):
            compiled(torch.full_like(indices, wrong))
    assert torch.equal(compiled(indices.T), embedding(indices.T))


def test_sizes_that_do_not_fit() -> None:
    blocks = blocks_of("q8_0", 4)
    with pytest.raises(ValueError, match="rows of 512 weights"):
        torch.ops.npugraph.gguf_linear(torch.randn(1, 64), blocks, "q8_0")
    with pytest.raises(ValueError, match="unknown type of blocks 'q9_0'"):
        torch.ops.npugraph.gguf_linear(torch.randn(1, 512), blocks, "q9_0")
    with pytest.raises(ValueError, match="multiple of 20"):
        torch.ops.npugraph.gguf_linear(torch.randn(1, 512), blocks, "q4_1")
    with pytest.raises(IndexError):
        torch.ops.npugraph.gguf_embedding(blocks, torch.tensor([4]), "q8_0", torch.float32)


def test_operators_without_generated_code() -> None:
    linear = QuantisedLinear(torch.nn.Parameter(blocks_of("q4_1", 20), requires_grad=False), "q4_1")
    x = torch.randn(2, COLUMNS)
    compiled = torch.compile(linear, backend="npugraph_ex", fullgraph=True, options={"generate_code": False})
    assert torch.equal(compiled(x), linear(x))
