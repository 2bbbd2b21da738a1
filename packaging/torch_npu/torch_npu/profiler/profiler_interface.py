# SPDX-License-Identifier: Apache-2.0
"""Activities that can be profiled."""

import enum

__all__ = ["supported_activities"]


class ProfilerActivity(enum.Enum):
    """Work of the host, and work on npu, which is work of the host."""

    CPU = 0
    NPU = 1


def supported_activities() -> set[ProfilerActivity]:
    """Returns all of ``ProfilerActivity``."""
    return set(ProfilerActivity)
