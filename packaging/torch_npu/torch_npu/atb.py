# SPDX-License-Identifier: Apache-2.0
"""The operators of the namespace ``atb`` alone: ``torch_npu.atb.npu_ring_mla`` is ``torch.ops.atb.npu_ring_mla``."""

from torch_npu import _operators


def __getattr__(name: str) -> object:
    found = _operators.find(name, ("atb",))
    if found is None:
        raise AttributeError(f"module 'torch_npu.atb' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_operators.names("atb")})
