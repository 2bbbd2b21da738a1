# SPDX-License-Identifier: Apache-2.0
"""Corrects choices that torch makes while it traces a graph."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import decompositions
from torch._subclasses import fake_impls

_BAGS = torch.ops.aten._embedding_bag.default


def install() -> None:
    """Makes the corrections, once per process."""
    _correct_lstm()
    _correct_embedding_bag()


def _correct_lstm() -> None:
    """An LSTM layer has two forms in a graph. The first is one operator for all steps (``mkldnn_rnn_layer``), which
    does not save what its gradient needs, the second has operators for each step. torch takes the second if the input
    requires a gradient, and ignores weights and states. Makes torch take it also for layers whose weights or states
    require gradients."""
    choose = decompositions.select_one_layer_lstm_function

    def choose_with_gradients(
        input: torch.Tensor, hx: Sequence[torch.Tensor], params: Sequence[Sequence[torch.Tensor]]
    ) -> Callable[..., Any]:
        others = itertools.chain(hx, *params)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in others):
            return decompositions.one_layer_lstm
        return choose(input, hx, params)

    decompositions.select_one_layer_lstm_function = choose_with_gradients


def _correct_embedding_bag() -> None:
    """Corrects the fake results of ``_embedding_bag`` for weights of bfloat16: the kernel of their sums needs no map
    from indices to bags, as those of float32 and float16. Gradients read that map."""
    torchs = fake_impls.op_implementations_dict[_BAGS]

    def fake(mode: Any, func: Any, weight: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if weight.dtype != torch.bfloat16:
            return torchs(mode, func, weight, *args, **kwargs)
        with mode:
            as_float = torch.empty_strided(weight.size(), weight.stride(), dtype=torch.float32, device=weight.device)
            bags, *others = torchs(mode, func, as_float, *args, **kwargs)
            return bags.to(weight.dtype), *others

    fake_impls.op_implementations_dict[_BAGS] = fake
