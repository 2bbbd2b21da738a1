# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled graphs for the modes of torchair."""
