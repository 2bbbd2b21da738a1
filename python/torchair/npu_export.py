# SPDX-License-Identifier: Apache-2.0
"""The export, in the module from which scripts of Ascend import it."""

from npugraph.ge.export import dynamo_export

__all__ = ["dynamo_export"]
