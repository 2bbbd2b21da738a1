# SPDX-License-Identifier: Apache-2.0
"""The words of ``declare_supported``, in the module from which scripts of Ascend import them."""

from npugraph.ge.backend.declared_calls import WORDS, Support, T
from npugraph.ge.backend.declared_calls import TypedTensor as _TypedTensor

__all__ = ["Support", "T", "_TypedTensor", *WORDS]

globals().update(WORDS)
