# SPDX-License-Identifier: Apache-2.0
"""Passes over FX graphs, which users see, switch off and extend."""
