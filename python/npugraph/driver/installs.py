# SPDX-License-Identifier: Apache-2.0
"""All changes that importing the backend makes in torch, in one place."""

from __future__ import annotations

import os

import torch

from npugraph import counters
from npugraph.fx.dynamo import corrected_torch, triton_calls
from npugraph.fx.streams import input_writes
from npugraph.operator_steps import hints
from npugraph.stored import torch_caches


def install() -> None:
    """Makes the changes, once per process."""
    input_writes.install()
    corrected_torch.install()
    triton_calls.install()
    counters.install()
    torch_caches.install()
    hints.install()
    if "BREAK_GRAPH_OP_LIST" in os.environ:
        from npugraph import graph_breaks

        graph_breaks.install()
    if torch.distributed.is_available():
        from npugraph.fx.dynamo import traceable

        traceable.install()
        if torch.distributed.is_initialized():
            from npugraph import npu_define  # noqa: F401 (defines operators)
