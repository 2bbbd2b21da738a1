# SPDX-License-Identifier: Apache-2.0
"""A file of converters in the form of public ones: without ``meta_outputs``, with ``declare_supported``."""

from typing import Any

import torch

from torchair._ge_concrete_graph import ge_apis as ge
from torchair._ge_concrete_graph.fx2ge_converter import declare_supported, register_fx_node_ge_converter
from torchair._ge_concrete_graph.supported_declaration import (  # noqa: F401
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    Support,
    T,
    _TypedTensor,
)
from torchair.ge._ge_graph import Tensor

library = torch.library.Library("public_ops", "DEF")
library.define("pick(Tensor x, Tensor places, *, float scale=2.0, str kind='rows') -> Tensor")
library.define("shift_(Tensor(a!) x, Tensor[] others) -> ()")


@torch.library.impl(library, "pick", "CompositeExplicitAutograd")
def pick(x: torch.Tensor, places: torch.Tensor, scale: float = 2.0, kind: str = "rows") -> torch.Tensor:
    return torch.index_select(x, 0 if kind == "rows" else 1, places) * scale


@torch.library.impl(library, "pick", "Meta")
def pick_meta(x: torch.Tensor, places: torch.Tensor, scale: float = 2.0, kind: str = "rows") -> torch.Tensor:
    size = list(x.size())
    size[0 if kind == "rows" else 1] = places.size(0)
    return x.new_empty(size)


@declare_supported(
    [
        Support(F32(4, 3), I64(2, value_range=(0, 3))),
        Support(F16(4, 3), I32(5, value_range=(0, 2)), scale=0.5, kind="columns"),
        Support(BF16(4, 3), T([3, 0, 3]), kind="rows"),
    ]
)
@register_fx_node_ge_converter(torch.ops.public_ops.pick.default)
def convert_pick(x: Tensor, places: Tensor, *, scale: float = 2.0, kind: str = "rows") -> Any:
    picked = ge.GatherV2(x, places, [0 if kind == "rows" else 1])
    return ge.Mul(picked, ge.Const(scale, dtype=x.dtype))
