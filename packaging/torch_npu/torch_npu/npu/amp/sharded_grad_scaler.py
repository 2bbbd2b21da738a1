# SPDX-License-Identifier: Apache-2.0
"""Scaling of losses of models that are sharded over processes."""

from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler


class _ShardedGradScaler(ShardedGradScaler):
    """torch's own class, by default for npu."""

    def __init__(self, device: str = "npu", **kwargs):
        super().__init__(device=device, **kwargs)
