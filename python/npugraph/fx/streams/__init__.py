# SPDX-License-Identifier: Apache-2.0
"""Streams, events and scopes of the program: marks in graphs, and the sections that marks become."""
