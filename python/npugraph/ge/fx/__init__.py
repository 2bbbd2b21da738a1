# SPDX-License-Identifier: Apache-2.0
"""From FX graphs to graphs of Ascend IR."""
