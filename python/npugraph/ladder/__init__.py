# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph ladder script.py``: looks for what changes a script's numbers.

The script runs once for each step of the ladder, in a process of its own: first with the graphs of Dynamo run by torch,
then with more and more of the compiler. Results of every call of a compiled graph are compared with those of the first
step. Where they differ, the switches of the compiler (``steps.py``) are bisected for the one that makes the difference,
and the user's line is looked up. ``--step`` looks into one run instead, task by task (``stepping.py``).
"""
