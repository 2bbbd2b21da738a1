# SPDX-License-Identifier: Apache-2.0
"""Functions of torch that functions of ``torch.npu`` with the same meaning call.

They are bound when torch_npu is imported, because clients set names of torch to functions of ``torch.npu``
(``torch.accelerator.empty_cache = torch.npu.empty_cache``). If they were looked up at each call, they would lead back
to their callers.
"""

from torch import load as load
from torch import roll as roll
from torch import save as save
from torch.accelerator import current_stream as current_stream
from torch.accelerator import empty_cache as empty_cache
from torch.accelerator import get_memory_info as get_memory_info
from torch.accelerator import memory_stats as memory_stats
from torch.accelerator import reset_accumulated_memory_stats as reset_accumulated_memory_stats
from torch.accelerator import reset_peak_memory_stats as reset_peak_memory_stats
from torch.accelerator import set_stream as set_stream
from torch.accelerator import synchronize as synchronize
