# SPDX-License-Identifier: Apache-2.0
"""Where scripts of Ascend import the backend from."""

from npugraph.compilers import compile_fx, get_compiler, get_npu_backend

__all__ = ["compile_fx", "get_compiler", "get_npu_backend"]
