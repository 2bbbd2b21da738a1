# SPDX-License-Identifier: Apache-2.0
"""Shows the coverage table of the random programs at the end of the run."""

from __future__ import annotations

from tests.python.fuzz import coverage
from tests.python.tables import TABLES

TABLES["random programs"] = coverage.table
