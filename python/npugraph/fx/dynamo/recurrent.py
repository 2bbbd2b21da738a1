# SPDX-License-Identifier: Apache-2.0
"""Which of its two forms torch gives a layer of an LSTM in a graph.

One operator (``mkldnn_rnn_layer``) does the work of all steps, but without what its gradient needs. So torch looks
whether the input wants a gradient, and forgets weights and states.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import decompositions


def install() -> None:
    """Gives layers whose weights or states want gradients the form that has them."""
    choose = decompositions.select_one_layer_lstm_function

    def choose_with_gradients(
        input: torch.Tensor, hx: Sequence[torch.Tensor], params: Sequence[Sequence[torch.Tensor]]
    ) -> Callable[..., Any]:
        others = itertools.chain(hx, *params)
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in others):
            return decompositions.one_layer_lstm
        return choose(input, hx, params)

    decompositions.select_one_layer_lstm_function = choose_with_gradients
