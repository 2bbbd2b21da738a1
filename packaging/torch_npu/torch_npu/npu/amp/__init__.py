# SPDX-License-Identifier: Apache-2.0
"""``torch.npu.amp``: mixed precision under the names that scripts use."""

from torch_npu.npu.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from torch_npu.npu.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def __getattr__(name: str) -> object:
    if name != "_ShardedGradScaler":
        raise AttributeError(f"module 'torch.npu.amp' has no attribute {name!r}")
    from torch_npu.npu.amp.sharded_grad_scaler import _ShardedGradScaler  # imports torch.distributed.fsdp

    return _ShardedGradScaler
