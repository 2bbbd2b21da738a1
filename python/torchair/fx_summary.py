# SPDX-License-Identifier: Apache-2.0
"""The module in which Ascend sums up the operators of an FX graph. It has no names here: option
``debug.fx_summary.type`` of ``torchair.CompilerConfig`` writes the summary. Scripts reload it."""
