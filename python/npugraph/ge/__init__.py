# SPDX-License-Identifier: Apache-2.0
"""Graphs of Ascend's graph engine (GE): their messages, the operators that they are made of, and how they are built."""
