# SPDX-License-Identifier: Apache-2.0
"""Operators that are wrapped, composed or collective -> operators that the compiler knows."""
