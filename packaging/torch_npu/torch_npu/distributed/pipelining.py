# SPDX-License-Identifier: Apache-2.0
"""Pipelines of stages over ranks: torch's, which work on npu."""

from torch.distributed.pipelining import pipeline

__all__ = ["pipeline"]
