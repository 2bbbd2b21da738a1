# SPDX-License-Identifier: Apache-2.0
"""The module in which Ascend sums up the operators of an FX graph. It has no names here: nothing is summed up in a
file, and ``artifact.explain()`` says what became of each operator. Scripts reload it."""
