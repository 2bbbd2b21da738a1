# SPDX-License-Identifier: Apache-2.0
"""``torch.npu``: devices, streams, memory and random numbers of the npu device."""

import importlib

from torch import OutOfMemoryError

from torch_npu.npu import _legacy_types, aclnn, amp
from torch_npu.npu.autocast_utils import (
    get_amp_supported_dtype,
    get_autocast_dtype,
    is_autocast_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from torch_npu.npu.backends import (
    CubeMathType,
    config,
    conv,
    matmul,
)
from torch_npu.npu.cann import (
    get_soc_version,
)
from torch_npu.npu.deterministic import (
    disable_deterministic_with_backward,
    enable_deterministic_with_backward,
)
from torch_npu.npu.graph_handlers import NpuGraphOpHandler, register_npu_graph_handler
from torch_npu.npu.graphs import (
    NPUGraph,
    graph,
    graph_pool_handle,
    graph_task_group_begin,
    graph_task_group_end,
    graph_task_update_begin,
    graph_task_update_end,
    is_current_stream_capturing,
    make_graphed_callables,
    super_kernel_scope_begin,
    super_kernel_scope_end,
)
from torch_npu.npu.memory import (
    MemPool,
    NPUPluggableAllocator,
    caching_allocator_alloc,
    caching_allocator_delete,
    change_current_allocator,
    empty_cache,
    empty_virt_addr_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_empty_cache,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_host_memory_stats,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_host_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
    use_mem_pool,
)
from torch_npu.npu.mstx import (
    mstx,
)
from torch_npu.npu.npu_config import (
    are_compatible_impl_enabled,
    finalize_dump,
    get_deterministic_level,
    get_device_limit,
    get_mm_bmm_format_nd,
    get_stream_limit,
    get_task_queue_enable,
    init_dump,
    is_jit_compile_false,
    reset_stream_limit,
    set_aoe,
    set_compile_mode,
    set_deterministic_level,
    set_device_limit,
    set_dump,
    set_mm_bmm_format_nd,
    set_op_timeout_ms,
    set_option,
    set_stream_limit,
    set_task_queue_enable,
    use_compatible_impl,
)
from torch_npu.npu.properties import (
    can_device_access_peer,
    device_count,
    get_device_capability,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_bf16_supported,
    is_initialized,
    npurt,
    utilization,
)
from torch_npu.npu.random import (
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_npu.npu.streams import Event, ExternalEvent, ExternalStream, Stream, SyncLaunchStream
from torch_npu.npu.utils import (
    StreamContext,
    check_uce_in_memory,
    clear_npu_overflow_flag,
    current_blas_handle,
    current_device,
    current_stream,
    default_stream,
    device,
    device_of,
    get_npu_overflow_flag,
    get_sync_debug_mode,
    ipc_collect,
    obfuscation_calculate,
    obfuscation_finalize,
    obfuscation_initialize,
    restart_device,
    set_device,
    set_stream,
    set_sync_debug_mode,
    stop_device,
    stream,
    stress_detect,
    synchronize,
)
from torch_npu.npu.utils import (
    _launch_host_func as _launch_host_func,
)
from torch_npu.npu.utils import (
    _subscribe_report as _subscribe_report,
)
from torch_npu.npu.utils import (
    _unsubscribe_report as _unsubscribe_report,
)

globals().update(_legacy_types.storages())
globals().update(_legacy_types.tensors())

_initialized = True  # torch.utils.checkpoint keeps the random states of devices with this flag

__all__ = [
    "BFloat16Storage",
    "BFloat16Tensor",
    "BoolStorage",
    "BoolTensor",
    "ByteStorage",
    "ByteTensor",
    "CharStorage",
    "CharTensor",
    "CubeMathType",
    "DoubleStorage",
    "DoubleTensor",
    "Event",
    "ExternalEvent",
    "ExternalStream",
    "FloatStorage",
    "FloatTensor",
    "HalfStorage",
    "HalfTensor",
    "IntStorage",
    "IntTensor",
    "LongStorage",
    "LongTensor",
    "MemPool",
    "NPUGraph",
    "NPUPluggableAllocator",
    "NpuGraphOpHandler",
    "OutOfMemoryError",
    "ShortStorage",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "SyncLaunchStream",
    "aclnn",
    "amp",
    "are_compatible_impl_enabled",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "can_device_access_peer",
    "change_current_allocator",
    "check_uce_in_memory",
    "clear_npu_overflow_flag",
    "config",
    "conv",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "disable_deterministic_with_backward",
    "empty_cache",
    "empty_virt_addr_cache",
    "enable_deterministic_with_backward",
    "finalize_dump",
    "get_allocator_backend",
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "get_deterministic_level",
    "get_device_capability",
    "get_device_limit",
    "get_device_name",
    "get_device_properties",
    "get_mm_bmm_format_nd",
    "get_npu_overflow_flag",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_soc_version",
    "get_stream_limit",
    "get_sync_debug_mode",
    "get_task_queue_enable",
    "graph",
    "graph_pool_handle",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "host_empty_cache",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "init_dump",
    "initial_seed",
    "ipc_collect",
    "is_autocast_enabled",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_jit_compile_false",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "matmul",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "mstx",
    "npurt",
    "obfuscation_calculate",
    "obfuscation_finalize",
    "obfuscation_initialize",
    "register_npu_graph_handler",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "reset_stream_limit",
    "restart_device",
    "seed",
    "seed_all",
    "set_aoe",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_compile_mode",
    "set_deterministic_level",
    "set_device",
    "set_device_limit",
    "set_dump",
    "set_mm_bmm_format_nd",
    "set_op_timeout_ms",
    "set_option",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_stream_limit",
    "set_sync_debug_mode",
    "set_task_queue_enable",
    "stop_device",
    "stream",
    "stress_detect",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
    "synchronize",
    "use_compatible_impl",
    "use_mem_pool",
    "utilization",
]


_FOR_INDUCTOR = ("Scheduling", "PythonWrapperCodegen", "CppWrapperCodegen", "WrapperFxCodegen")


# These names are imported at their first use.
def __getattr__(name: str) -> object:
    if name == "npugraph_ex":
        return importlib.import_module(f"{__name__}.{name}")
    if name in _FOR_INDUCTOR:
        return getattr(importlib.import_module("torch_npu._inductor"), name)
    raise AttributeError(f"module 'torch.npu' has no attribute {name!r}")


# torch calls these functions of a device module that starts a driver at its first use. Here there is no driver to
# start, and a fork breaks nothing more than on the CPU.
def _lazy_init() -> None: ...


def _lazy_call(callback) -> None:
    callback()


def _is_in_bad_fork() -> bool:
    return False
