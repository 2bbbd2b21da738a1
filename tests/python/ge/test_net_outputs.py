# SPDX-License-Identifier: Apache-2.0
"""Results of graphs that differ from what Meta functions say of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import torchair
from npugraph.ge import apis as ge
from npugraph.ge.data_types import DataType

for _name in ("shorter", "other_type"):
    torch.library.define(f"net_outputs::{_name}", "(Tensor x) -> Tensor")
torch.library.register_fake("net_outputs::shorter", lambda x: x.new_empty(x.shape[0] + 1, x.shape[1]))
torch.library.register_fake("net_outputs::other_type", lambda x: x.new_empty(x.shape, dtype=torch.int32))
torchair.register_fx_node_ge_converter(torch.ops.net_outputs.shorter.default)(lambda x, *, meta_outputs: ge.Relu(x))
torchair.register_fx_node_ge_converter(torch.ops.net_outputs.other_type.default)(
    lambda x, *, meta_outputs: ge.Cast(ge.Relu(x), dst_type=DataType.DT_FLOAT16)
)


@pytest.mark.feature("11.15")
@pytest.mark.parametrize(
    ("op", "computed", "said"),
    [
        ("shorter", r"torch\.float32 of sizes \[3, 4\]", r"torch\.float32 of sizes \[4, 4\]"),
        ("other_type", r"torch\.float16 of sizes \[3, 4\]", r"torch\.int32 of sizes \[3, 4\]"),
    ],
)
@torch.no_grad()
def test_other_sizes_and_types_are_an_error(op: str, computed: str, said: str) -> None:
    torch._dynamo.reset()
    target: Any = getattr(torch.ops.net_outputs, op)
    fast = torch.compile(lambda x: target(x), backend=torchair.get_npu_backend())
    text = rf"result 0 of graph 'graph_\d+' is {computed} by its operators of Ascend IR, and {said} by the FX graph"
    for _ in range(2):
        with pytest.raises(RuntimeError, match=text):
            fast(torch.randn(3, 4))
