# SPDX-License-Identifier: Apache-2.0
"""``custom_op``, in the module from which scripts of Ascend import it."""

from npugraph.ge.builders import custom_op

__all__ = ["custom_op"]
