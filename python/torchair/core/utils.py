# SPDX-License-Identifier: Apache-2.0
"""The logger, in the module from which Ascend's documents import it."""

from npugraph.log import EVENT as EVENT_LEVEL
from npugraph.log import logger

__all__ = ["EVENT_LEVEL", "logger"]
