# SPDX-License-Identifier: Apache-2.0
"""Converters of the operators of ``air`` that scripts call by ``torchair.ops`` and ``torchair.scope``. Marks of scopes,
records and waits are no operators of Ascend IR (``npugraph.ge.fx.scopes``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npugraph.ge import apis as ge
from npugraph.ge.converters.registry import register_fx_node_ge_converter
from npugraph.ge.converters.values import cast, shape_of
from npugraph.ge.data_types import DataType
from npugraph.ge.graph import Tensor, current_graph

_SHAPE = ".shape"  # behind a placeholder: it stands for the sizes of the tensor before


@register_fx_node_ge_converter(torch.ops.air.wait_tensor.default)
def wait_tensor(x: Tensor, dependency: Tensor, *, meta_outputs: Any) -> Tensor:
    return ge.Identity(x, dependencies=[dependency])


@register_fx_node_ge_converter(torch.ops.air.print.default)
def print_tensors(
    x: Sequence[Tensor],
    format: str,
    placeholder: str,
    summarize: int = 3,
    stream: str = "stdout",
    *,
    meta_outputs: Any,
) -> None:
    begin, *rest = format.split(placeholder)
    place, operands, texts = -1, [], [begin]
    for text in rest:
        if text.startswith(_SHAPE):
            operands.append(shape_of(x[place]))
        else:
            place += 1
            is_bf16 = x[place].dtype == DataType.DT_BF16  # which StringFormat does not take
            operands.append(cast(x[place], DataType.DT_FLOAT) if is_bf16 else x[place])
        texts.append(text.removeprefix(_SHAPE))
    line = ge.StringFormat(operands, template=placeholder.join(texts), placeholder=placeholder, summarize=summarize)
    before = [op for op in current_graph().op if op.type == "PrintV2"]
    ge.PrintV2(line, output_stream=stream, dependencies=before[-1:])
