# SPDX-License-Identifier: Apache-2.0
"""The logger of the whole package: ``logger.setLevel(logging.DEBUG)`` shows what each step does."""

import logging

logger = logging.getLogger("npugraph")
