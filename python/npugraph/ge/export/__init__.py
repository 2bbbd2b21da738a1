# SPDX-License-Identifier: Apache-2.0
"""Graphs of GE as files that a process without Python compiles and runs."""

from npugraph.ge.export.entry import dynamo_export

__all__ = ["dynamo_export"]
