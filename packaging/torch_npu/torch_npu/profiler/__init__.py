# SPDX-License-Identifier: Apache-2.0
"""``torch_npu.profiler``: torch's profiler under the names that scripts use. It shows work on npu as work of the
host."""

from torch_npu.profiler import dynamic_profile
from torch_npu.profiler.experimental_config import (
    AiCMetrics,
    ExportType,
    HostSystem,
    ProfilerLevel,
    _ExperimentalConfig,
    supported_ai_core_metrics,
    supported_export_type,
    supported_profiler_level,
)
from torch_npu.profiler.profiler import analyse, profile, tensorboard_trace_handler
from torch_npu.profiler.profiler_interface import ProfilerActivity, supported_activities
from torch_npu.profiler.scheduler import ProfilerAction, Schedule

schedule = Schedule

__all__ = [
    "AiCMetrics",
    "ExportType",
    "HostSystem",
    "ProfilerAction",
    "ProfilerActivity",
    "ProfilerLevel",
    "_ExperimentalConfig",
    "analyse",
    "dynamic_profile",
    "profile",
    "schedule",
    "supported_activities",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
    "tensorboard_trace_handler",
]
