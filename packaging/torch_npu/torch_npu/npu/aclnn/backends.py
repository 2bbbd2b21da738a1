# SPDX-License-Identifier: Apache-2.0
"""The vendor's operator library, which this device stands in for."""

from torch_npu.npu.cann import get_cann_version


def version() -> str:
    """Returns the version of the operator library."""
    return get_cann_version()
