# SPDX-License-Identifier: Apache-2.0
"""An LSTM in both directions."""

import torch

__all__ = ["BiLSTM"]


class BiLSTM(torch.nn.Module):
    """One LSTM layer in both directions. Inputs are [time, batch, input_size], results [time, batch, 2 *
    hidden_size]."""

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.lstm = torch.nn.LSTM(input_size, hidden_size, bidirectional=True)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.lstm(inputs)[0]
