# SPDX-License-Identifier: Apache-2.0
"""torch's sharding of parameters over ranks, which works on npu."""

from torch.distributed.fsdp import fully_shard

__all__ = ["fully_shard"]
