# SPDX-License-Identifier: Apache-2.0
"""Random operators of npu in checkpointed parts of a graph. The forward pass saves the state of the generator, and the
backward pass draws from that state again. torch has kernels for this only for a fixed list of devices, so that npu has
to be added."""

from __future__ import annotations

from typing import Any

import torch

from torch_npu.npu.random import get_rng_state, set_rng_state


def install() -> None:
    from torch._higher_order_ops.utils import registered_hop_fake_fns
    from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

    for operator, of_npu in ((run_and_save_rng_state, _save), (run_with_rng_state, _repeat)):
        key = torch._C.DispatchKey.BackendSelect
        operator.py_kernels[key] = _on_npu_or(operator.py_kernels[key], of_npu)
        operator._dispatch_cache.clear()
    saves = registered_hop_fake_fns[run_and_save_rng_state]
    registered_hop_fake_fns[run_and_save_rng_state] = _on_npu_or(saves, _save)


def _on_npu_or(otherwise: Any, of_npu: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        return (otherwise if _device(args, kwargs) is None else of_npu)(*args, **kwargs)

    return call


def _device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    """Returns the device that the operator draws on, or None if that is not npu."""
    given = kwargs.get("device")
    places = [torch.device(given)] if given else [x.device for x in args if isinstance(x, torch.Tensor)]
    return next((place for place in places if place.type == "npu"), None)


def _save(operator: Any, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, Any]:
    return get_rng_state(_device(args, kwargs)), operator(*args, **kwargs)


def _repeat(state: torch.Tensor, operator: Any, *args: Any, **kwargs: Any) -> Any:
    device = _device(args, kwargs)
    before = get_rng_state(device)
    set_rng_state(state.cpu(), device)
    result = operator(*args, **kwargs)
    set_rng_state(before, device)
    return result
