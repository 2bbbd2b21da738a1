# SPDX-License-Identifier: Apache-2.0
"""The process group of the backend hccl."""

from npugraph._ascend import ProcessGroupHCCL

__all__ = ["ProcessGroupHCCL"]
