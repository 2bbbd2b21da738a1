# SPDX-License-Identifier: Apache-2.0
"""The names of ``torch.cuda.graphs``, and Ascend's further names, for npu."""

from torch_npu.npu.graphed_callables import make_graphed_callables
from torch_npu.npu.npu_graph import (
    NPUGraph,
    graph,
    graph_pool_handle,
    graph_task_group_begin,
    graph_task_group_end,
    graph_task_update_begin,
    graph_task_update_end,
    is_current_stream_capturing,
    super_kernel_scope_begin,
    super_kernel_scope_end,
)

__all__ = [
    "NPUGraph",
    "graph",
    "graph_pool_handle",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
]
