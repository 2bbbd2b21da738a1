# SPDX-License-Identifier: Apache-2.0
"""Measures two linear layers whose weights and activations are quantised to 8 bits (W8A8), as torchao's
``Int8DynamicActivationInt8WeightConfig`` quantises them, against the same layers in fp32. Weights have a scale for each
output, activations one for each row, which each call computes. torchao multiplies signed bytes, or unsigned with signed
ones on processors that have an instruction for these alone; both forms are measured on each processor."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch

from benchmarks import peers, sides
from benchmarks.harness import Request, Result, measure
from benchmarks.quantised_layers import ROWS, SIZES, layer_side, layer_sides

NAME = "int8_layers"
FORMS = ("i8", "u8")
FLOATS = "npugraph_ex fp32"


class Int8Linear(torch.nn.Module):
    """``linear`` with quantised weights. ``form`` is the type of the activations in the product, "i8" or "u8"."""

    def __init__(self, linear: torch.nn.Linear, form: str) -> None:
        super().__init__()
        self.form = form
        scales = (linear.weight.detach().abs().amax(1) / 127.5).clamp(min=torch.finfo(torch.float32).eps)
        codes = torch.clamp(torch.round(linear.weight.detach() / scales[:, None]), -128, 127)
        self.register_buffer("codes", codes.to(torch.int8))
        self.register_buffer("scales", scales)
        self.register_buffer("bias", linear.bias.detach())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scales = (x.abs().amax(1, keepdim=True) / 127.5).clamp(min=torch.finfo(torch.float32).eps)
        codes = torch.clamp(torch.round(x * scales.reciprocal()), -128, 127).to(torch.int8)
        return self.product(codes).to(x.dtype) * scales * self.scales + self.bias

    def product(self, codes: torch.Tensor) -> torch.Tensor:
        weights = self.codes.t()
        if self.form == "i8":
            return torch._int_mm(codes, weights)
        product = torch._int_mm((codes.to(torch.int32) + 128).to(torch.uint8), weights)
        return product.sub_(weights.sum(dim=0, keepdim=True, dtype=torch.int32) * 128)


def layers() -> torch.nn.Sequential:
    torch.manual_seed(0)
    first, second = (torch.nn.Linear(k, n) for k, n in itertools.pairwise(SIZES))
    return torch.nn.Sequential(first, torch.nn.ReLU(), second).eval()


def quantised(model: torch.nn.Sequential, form: str) -> torch.nn.Sequential:
    return torch.nn.Sequential(Int8Linear(model[0], form), model[1], Int8Linear(model[2], form)).eval()


def run(request: Request) -> Iterator[Result]:
    for case, rows in ROWS.items():
        for form in FORMS:
            if request.wants(NAME, f"{form} {case}"):
                yield compare(f"{form} {case}", form, rows, request)


def compare(case: str, form: str, rows: int, request: Request) -> Result:
    torch._dynamo.reset()
    floats = layers()
    int8 = quantised(floats, form)
    x = torch.randn(rows, SIZES[0])
    compared = layer_sides(int8, x, request)
    compared.append(layer_side(FLOATS, peers.compiled(sides.OURS, floats), floats, x))
    return measure(NAME, case, compared, request.samples)
