# SPDX-License-Identifier: Apache-2.0
"""Modules that a benchmark runs in processes of their own; each takes samples of the benchmark of its name."""
