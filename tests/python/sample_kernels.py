# SPDX-License-Identifier: Apache-2.0
"""Loads tests/unit/core/libraries/sample_kernels.cc, the library of a user, and gives its operators Meta functions. The
operators ``strides`` and ``reads_integers`` have none."""

from __future__ import annotations

from pathlib import Path

import torch

import npugraph

FOLDER = Path(__file__).parents[2] / "build/release/test_libraries"
LIBRARY = FOLDER / "libsample_kernels.so"

npugraph.load_library(LIBRARY)
for _name in ("scaled_add", "reversed", "fails_inside", "writes_its_input", "writes_beyond"):
    torch.library.register_fake(f"test_ops::{_name}", lambda x, *rest: torch.empty_like(x))


@torch.library.register_fake("test_ops::everything")
def _everything(x: torch.Tensor, *rest: object) -> tuple[torch.Tensor, torch.Tensor]:
    return x.new_empty(1), x.new_empty(1, dtype=torch.int64)
