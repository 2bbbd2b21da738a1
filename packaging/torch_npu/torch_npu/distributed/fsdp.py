# SPDX-License-Identifier: Apache-2.0
"""Sharding of parameters over ranks: torch's, which work on npu."""

from torch.distributed.fsdp import fully_shard

__all__ = ["fully_shard"]
