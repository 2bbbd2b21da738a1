# SPDX-License-Identifier: Apache-2.0
"""The log of GE mode: the package's logger. Scripts for torchair expect records on stdout in torchair's format."""

from npugraph.log import logger

__all__ = ["logger"]
