# SPDX-License-Identifier: Apache-2.0
"""Operators of the namespace ``npu_inference``, which scripts get by importing this module: those of torch_npu of the
same names. Without torch_npu the import is an ``ImportError``."""

import torch

_NAMES = (
    "npu_dequant_swiglu_quant",
    "npu_interleave_rope",
    "npu_kv_rmsnorm_rope_cache",
    "npu_moe_gating_top_k",
)


def _define() -> torch.library.Library:
    library = torch.library.Library("npu_inference", "DEF")
    for name in _NAMES:
        operator = getattr(torch.ops.npu, name)
        library.define(str(operator.default._schema).removeprefix("npu::"))
        library.impl(name, operator, "CompositeImplicitAutograd")
    return library


if not hasattr(torch.ops.npu, _NAMES[0]):
    raise ImportError(f"{__name__} needs torch_npu, whose operators it has under other names", name=__name__)
_library = _define()
