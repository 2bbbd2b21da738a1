# SPDX-License-Identifier: Apache-2.0
"""Inductor's logger of generated code, which ``TORCH_LOGS="output_code"`` turns on."""

from __future__ import annotations

from torch._logging import getArtifactLogger

code_log = getArtifactLogger("torch._inductor.codecache", "output_code")
