# SPDX-License-Identifier: Apache-2.0
"""Options of the agent of torch.distributed.rpc.

The agent is torch's own, of the backend TENSORPIPE, which carries tensors of the CPU. Maps of npu devices are kept and
can be read, but ``init_rpc`` with such maps fails.
"""

from __future__ import annotations

import torch
from torch.distributed.rpc import TensorPipeRpcBackendOptions, constants

__all__ = ["NPUTensorPipeRpcBackendOptions"]

DeviceType = int | str | torch.device


def _device(device: DeviceType) -> torch.device:
    found = torch.device("npu", device) if isinstance(device, int) else torch.device(device)
    if found.type not in ("npu", "cpu"):
        raise ValueError(f"NPUTensorPipeRpcBackendOptions: a device is {found}, allowed are those of npu and cpu")
    return found


def _device_map(devices: dict[DeviceType, DeviceType]) -> dict[torch.device, torch.device]:
    found = {_device(ours): _device(theirs) for ours, theirs in devices.items()}
    if len(set(found.values())) < len(found):
        raise ValueError(f"NPUTensorPipeRpcBackendOptions: a device map must be one to one, got {devices}")
    return found


class NPUTensorPipeRpcBackendOptions(TensorPipeRpcBackendOptions):
    """The ``rpc_backend_options`` of ``torch.distributed.rpc.init_rpc``, with devices of npu. A number is the index of
    an npu device. Raises ValueError for devices other than npu and cpu."""

    def __init__(
        self,
        *,
        num_worker_threads: int = constants.DEFAULT_NUM_WORKER_THREADS,
        rpc_timeout: float = constants.DEFAULT_RPC_TIMEOUT_SEC,
        init_method: str = constants.DEFAULT_INIT_METHOD,
        device_maps: dict[str, dict[DeviceType, DeviceType]] | None = None,
        devices: list[DeviceType] | None = None,
        _transports: list | None = None,
        _channels: list | None = None,
    ):
        super().__init__(
            num_worker_threads=num_worker_threads,
            rpc_timeout=rpc_timeout,
            init_method=init_method,
            _transports=_transports,
            _channels=_channels,
        )
        for to, device_map in (device_maps or {}).items():
            self.set_device_map(to, device_map)
        self.set_devices(devices or [])

    def set_device_map(self, to: str, device_map: dict[DeviceType, DeviceType]) -> None:
        """Adds to the map from devices of this process to the devices of worker ``to`` that their tensors go to. Raises
        ValueError for a map that is not one to one, or that changes an entry."""
        wanted = _device_map(device_map)
        known = self.device_maps.get(to, {})
        for ours, theirs in wanted.items():
            if known.get(ours, theirs) != theirs:
                of = f"NPUTensorPipeRpcBackendOptions: {ours} of worker {to!r}"
                raise ValueError(f"{of} maps to {known[ours]}, and not to {theirs}")
        self._set_device_map(to, wanted)

    def set_devices(self, devices: list[DeviceType]) -> None:
        """Sets the devices of this process that remote calls use."""
        self.devices = [_device(device) for device in devices]
