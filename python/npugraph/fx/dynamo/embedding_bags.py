# SPDX-License-Identifier: Apache-2.0
"""Corrects the fake results of ``_embedding_bag`` for weights of bfloat16: the kernel of their sums needs no map from
indices to bags, as those of float32 and float16. Gradients read that map."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import fake_impls

_BAGS = torch.ops.aten._embedding_bag.default


def install() -> None:
    torchs = fake_impls.op_implementations_dict[_BAGS]

    def fake(mode: Any, func: Any, weight: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if weight.dtype != torch.bfloat16:
            return torchs(mode, func, weight, *args, **kwargs)
        with mode:
            as_float = torch.empty_strided(weight.size(), weight.stride(), dtype=torch.float32, device=weight.device)
            bags, *others = torchs(mode, func, as_float, *args, **kwargs)
            return bags.to(weight.dtype), *others

    fake_impls.op_implementations_dict[_BAGS] = fake
