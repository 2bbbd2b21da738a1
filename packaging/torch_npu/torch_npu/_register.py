# SPDX-License-Identifier: Apache-2.0
"""Registers npu with torch."""

from types import ModuleType

import torch

# The methods that torch makes for storages cannot move storages of these types to npu.
_UNSUPPORTED = [torch.quint8, torch.quint4x2, torch.quint2x4, torch.qint32, torch.qint8]


def make_device() -> None:
    """Makes npu a device of torch.

    Raises RuntimeError if the process already has another backend under torch's private key, and ImportError if the
    C++ half of the device is missing.
    """
    other = torch._C._get_privateuse1_backend_name()
    if other not in ("privateuseone", "npu"):
        raise RuntimeError(f"torch_npu cannot be loaded: this process already has the device {other!r} in its place")
    try:
        import npugraph._ascend as _ascend
    except ModuleNotFoundError as error:
        raise ImportError(
            "torch_npu needs npugraph._ascend, the C++ half of the npu device, and it is not there: the wheel of "
            "torch_npu that `make wheel` makes brings it, and `scripts/build release product` builds it in a clone"
        ) from error
    _ascend.register_operators()
    _ascend.register_device()
    torch.utils.rename_privateuse1_backend("npu")


def make_module(module: ModuleType) -> None:
    """Makes ``module`` the module ``torch.npu``, and adds ``npu()`` and ``is_npu`` to tensors, modules and storages."""
    torch._register_device_module("npu", module)
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_storage=True, unsupported_dtype=_UNSUPPORTED
    )
    torch.nn.parameter.UninitializedTensorMixin._allowed_methods.append(torch.Tensor.npu)
