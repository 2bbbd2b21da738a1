# SPDX-License-Identifier: Apache-2.0
"""Streams, events and scopes of the program. Graphs carry them as marks, and marks become sections."""
