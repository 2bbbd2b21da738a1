# SPDX-License-Identifier: Apache-2.0
"""What makes the operators of the namespace atb known."""


def _register_atb_extensions() -> None:
    """Does nothing: they are known since ``import torch_npu``."""
