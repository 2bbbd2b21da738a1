# SPDX-License-Identifier: Apache-2.0
"""Where Ascend's documents import the logger from."""

from npugraph.log import logger

__all__ = ["logger"]
