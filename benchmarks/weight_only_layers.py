# SPDX-License-Identifier: Apache-2.0
"""Measures two linear layers whose weights alone are quantised, as torchao's ``Float8WeightOnlyConfig`` and
``IntxWeightOnlyConfig`` write them: each call dequantises the weights in front of the product. float8 has a scale for
each output, 4 bits have a scale and a zero point for each 32 inputs. Codes of 4 bits are bytes, as there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch

from benchmarks.harness import Request, Result, measure
from benchmarks.quantised_layers import ROWS, SIZES, layer_sides

NAME = "weight_only_layers"
GROUP = 32


class Float8Linear(torch.nn.Module):
    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach().float()
        scales = weight.abs().amax(1, keepdim=True) / torch.finfo(torch.float8_e4m3fn).max
        self.register_buffer("codes", (weight / scales).to(torch.float8_e4m3fn))
        self.register_buffer("scales", scales)
        self.register_buffer("bias", linear.bias.detach())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = (self.codes.t().to(torch.float32) * self.scales.t()).to(x.dtype)
        return torch.mm(x, weights) + self.bias


class Int4Linear(torch.nn.Module):
    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        groups = weight.unflatten(1, (-1, GROUP))
        least, most = groups.aminmax(dim=2, keepdim=True)
        scales = (most - least) / 15
        zeros = torch.clamp(-8 - torch.round(least / scales), -8, 7)
        codes = torch.clamp(torch.round(groups / scales) + zeros, -8, 7)
        self.register_buffer("codes", codes.reshape(weight.shape).to(torch.int8))
        self.register_buffer("scales", scales.squeeze(2))
        self.register_buffer("zeros", zeros.squeeze(2).to(torch.int8))
        self.register_buffer("bias", linear.bias.detach())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        groups = self.codes.unflatten(1, (-1, GROUP)).to(x.dtype)
        weights = (groups - self.zeros[..., None].to(x.dtype)) * self.scales[..., None]
        return torch.nn.functional.linear(x, weights.flatten(1), self.bias)


FORMS = {"float8": Float8Linear, "int4": Int4Linear}


def layers(form: str) -> torch.nn.Sequential:
    torch.manual_seed(0)
    first, second = (torch.nn.Linear(k, n) for k, n in itertools.pairwise(SIZES))
    return torch.nn.Sequential(FORMS[form](first), torch.nn.ReLU(), FORMS[form](second)).eval()


def run(request: Request) -> Iterator[Result]:
    for case, rows in ROWS.items():
        for form in FORMS:
            if request.wants(NAME, f"{form} {case}"):
                yield compare(f"{form} {case}", layers(form), rows, request)


def compare(case: str, model: torch.nn.Sequential, rows: int, request: Request) -> Result:
    torch._dynamo.reset()
    x = torch.randn(rows, SIZES[0])
    return measure(NAME, case, layer_sides(model, x, request), request.samples)
