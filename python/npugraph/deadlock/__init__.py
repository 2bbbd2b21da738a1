# SPDX-License-Identifier: Apache-2.0
"""Can a captured graph stand still for want of cores? Of its tasks, those that keep their cores until others have come
(collectives) are looked at: where nothing orders some of them and together they ask for more vector cores than there
are, each may wait for the rest forever.

``device_trace.py`` writes what a capture runs, ``trace_file.py`` reads Chrome traces, ``operators.py`` says which of
their tasks count and for how many cores, ``order.py`` which come before which, ``conflicts.py`` finds sets of any size,
``check.py`` is the verdict, and ``command.py`` the command lines.
"""
