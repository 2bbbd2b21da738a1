# SPDX-License-Identifier: Apache-2.0
"""Looks for captured graphs that may never end because tasks wait for each other's vector cores.

Collectives keep their cores until their peers have come. If nothing orders some of them, and together they need more
vector cores than there are, each may wait for the others forever.

``device_trace.py`` writes the tasks of a capture as a Chrome trace, and ``trace_file.py`` reads such traces.
``operators.py`` says which tasks count and how many cores they keep. ``order.py`` computes which tasks come before
which, and ``conflicts.py`` finds sets of any size. ``check.py`` gives the verdict, and ``command.py`` has the command
lines.
"""
