# SPDX-License-Identifier: Apache-2.0
"""Captured graphs, in the module from which scripts of Ascend import them."""

from typing import Any

from npugraph.facade import NotHereError

__all__ = ["AclConcreteGraph"]


class AclConcreteGraph:
    """A graph of mode reduce-overhead. It cannot be made: the compiler captures such graphs itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotHereError(
            "a graph of mode 'reduce-overhead' is captured by the compiler and has no object of Python that builds it; "
            "torchair.get_npu_backend compiles in this mode, and npugraph.artifacts() has what was compiled"
        )
