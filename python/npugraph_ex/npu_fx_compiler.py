# SPDX-License-Identifier: Apache-2.0
"""The backend, in the module from which scripts of Ascend import it."""

from npugraph.compilers import compile_fx, get_compiler, get_npu_backend

__all__ = ["compile_fx", "get_compiler", "get_npu_backend"]
