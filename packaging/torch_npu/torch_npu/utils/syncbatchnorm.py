# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation over the batches of all processes of a group: what ``torch.nn.SyncBatchNorm`` calls, also for
tensors of npu.

    SyncBatchNorm.apply(input, weight, bias, running_mean, running_var, eps, momentum, process_group, world_size)
"""

from torch.nn.modules._functions import SyncBatchNorm

__all__ = ["SyncBatchNorm"]
