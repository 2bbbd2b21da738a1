# SPDX-License-Identifier: Apache-2.0
"""The backend, in the module from which scripts of Ascend import it."""

from npugraph.ge.backend.npu_backend import get_compiler, get_npu_backend

__all__ = ["get_compiler", "get_npu_backend"]
