# SPDX-License-Identifier: Apache-2.0
"""Registration of the operators of the namespace atb."""


def _register_atb_extensions() -> None:
    """Does nothing: ``import torch_npu`` has registered them."""
