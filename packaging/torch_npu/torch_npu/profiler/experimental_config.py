# SPDX-License-Identifier: Apache-2.0
"""Settings of an NPU's profiler. ``export_type`` decides whether tables are written. All others are kept and have no
effect, because there is no such hardware to measure."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = [
    "AiCMetrics",
    "ExportType",
    "HostSystem",
    "ProfilerLevel",
    "_ExperimentalConfig",
    "supported_ai_core_metrics",
    "supported_export_type",
    "supported_profiler_level",
]


class ProfilerLevel:
    """Levels of detail."""

    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"
    Level_none = "Level_none"


class AiCMetrics:
    """Groups of counters of the cores."""

    PipeUtilization = "ACL_AICORE_PIPE_UTILIZATION"
    ArithmeticUtilization = "ACL_AICORE_ARITHMETIC_UTILIZATION"
    Memory = "ACL_AICORE_MEMORY_BANDWIDTH"
    MemoryL0 = "ACL_AICORE_L0B_AND_WIDTH"
    MemoryUB = "ACL_AICORE_MEMORY_UB"
    ResourceConflictRatio = "ACL_AICORE_RESOURCE_CONFLICT_RATIO"
    L2Cache = "ACL_AICORE_L2_CACHE"
    MemoryAccess = "ACL_AICORE_MEMORY_ACCESS"
    AiCoreNone = "ACL_AICORE_NONE"


class ExportType:
    """Kinds of files."""

    Db = "db"
    Text = "text"


class HostSystem:
    """Parts of the host that are watched."""

    CPU = "cpu"
    MEM = "mem"
    DISK = "disk"
    NETWORK = "network"
    OSRT = "osrt"


def _values(kind: type) -> set[str]:
    return {value for name, value in vars(kind).items() if not name.startswith("_")}


def supported_profiler_level() -> set[str]:
    """Returns all values of ``ProfilerLevel``."""
    return _values(ProfilerLevel)


def supported_ai_core_metrics() -> set[str]:
    """Returns all values of ``AiCMetrics``."""
    return _values(AiCMetrics)


def supported_export_type() -> set[str]:
    """Returns all values of ``ExportType``."""
    return _values(ExportType)


def _check(name: str, values: Iterable[str], allowed: set[str]) -> None:
    for value in values:
        if value not in allowed:
            raise ValueError(f"_ExperimentalConfig: {name} has {value!r}, allowed are {', '.join(sorted(allowed))}")


class _ExperimentalConfig:
    """Settings of an NPU's profiler by name. Raises ValueError for a value that is not known."""

    def __init__(
        self,
        profiler_level: str = ProfilerLevel.Level0,
        aic_metrics: str = AiCMetrics.AiCoreNone,
        l2_cache: bool = False,
        msprof_tx: bool = False,
        data_simplification: bool = True,
        record_op_args: bool = False,
        op_attr: bool = False,
        gc_detect_threshold: float | None = None,
        export_type: str | list[str] | None = None,
        host_sys: list[str] | None = None,
        mstx: bool = False,
        mstx_domain_include: list[str] | None = None,
        mstx_domain_exclude: list[str] | None = None,
        sys_io: bool = False,
        sys_interconnection: bool = False,
    ):
        exports = [export_type] if isinstance(export_type, str) else list(export_type or [ExportType.Text])
        _check("profiler_level", [profiler_level], supported_profiler_level())
        _check("aic_metrics", [aic_metrics], supported_ai_core_metrics())
        _check("export_type", exports, supported_export_type())
        _check("host_sys", host_sys or [], _values(HostSystem))
        self.profiler_level = profiler_level
        self.aic_metrics = aic_metrics
        self.l2_cache = l2_cache
        self.msprof_tx = msprof_tx or mstx
        self.data_simplification = data_simplification
        self.record_op_args = record_op_args
        self.op_attr = op_attr
        self.gc_detect_threshold = gc_detect_threshold
        self.export_type = exports
        self.host_sys = host_sys or []
        self.mstx_domain_include = mstx_domain_include or []
        self.mstx_domain_exclude = mstx_domain_exclude or []
        self.sys_io = sys_io
        self.sys_interconnection = sys_interconnection
