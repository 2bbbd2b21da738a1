# SPDX-License-Identifier: Apache-2.0
"""torch's pipelines of stages over ranks, which work on npu."""

from torch.distributed.pipelining import pipeline

__all__ = ["pipeline"]
