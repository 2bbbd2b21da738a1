# SPDX-License-Identifier: Apache-2.0
"""Corrects torch's choice between the two forms of an LSTM layer in a graph.

The first form is one operator for all steps (``mkldnn_rnn_layer``), which does not save what its gradient needs. The
second form has operators for each step. torch takes the second form if the input requires a gradient, but ignores
weights and states.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import decompositions


def install() -> None:
    """Makes torch take the form that has gradients also for layers whose weights or states require them."""
    choose = decompositions.select_one_layer_lstm_function

    def choose_with_gradients(
        input: torch.Tensor, hx: Sequence[torch.Tensor], params: Sequence[Sequence[torch.Tensor]]
    ) -> Callable[..., Any]:
        others = itertools.chain(hx, *params)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in others):
            return decompositions.one_layer_lstm
        return choose(input, hx, params)

    decompositions.select_one_layer_lstm_function = choose_with_gradients
