# SPDX-License-Identifier: Apache-2.0
"""The logger, in the module from which Ascend's documents import it."""

from npugraph.log import logger

__all__ = ["logger"]
