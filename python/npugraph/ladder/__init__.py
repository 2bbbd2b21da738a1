# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph ladder script.py``: finds the part of the compiler that changes a script's numbers.

The script runs once for each step of the ladder, in a process of its own. At the first step, torch runs the graphs of
Dynamo. Each later step uses more of the compiler. The results of every call of a compiled graph are compared with those
of the first step. If they differ, the switches of the compiler (``steps.py``) are bisected for the one that makes the
difference, and the user's line is looked up. With ``--step``, the tasks of one run are compared instead
(``stepping.py``).
"""
