# SPDX-License-Identifier: Apache-2.0
"""``torch_npu.distributed``: the functions of Ascend's communication library that torch.distributed does not have."""

from torch.distributed import is_available as _has_distributed

from torch_npu.distributed.distributed_c10d import is_hccl_available, reinit_process_group
from torch_npu.distributed.uneven import all_gather_into_tensor_uneven, all_to_all_vc, reduce_scatter_tensor_uneven

__all__ = [
    "all_gather_into_tensor_uneven",
    "all_to_all_vc",
    "is_hccl_available",
    "reduce_scatter_tensor_uneven",
    "reinit_process_group",
]


def is_available() -> bool:
    """Whether torch has torch.distributed."""
    return _has_distributed()
