# SPDX-License-Identifier: Apache-2.0
"""torch_npu.distributed.rpc."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.distributed import rpc
from torch_npu.distributed.rpc.options import NPUTensorPipeRpcBackendOptions

FIRST, SECOND = torch.device("npu:0"), torch.device("npu:1")


def test_options_accept_devices_in_every_form() -> None:
    options = NPUTensorPipeRpcBackendOptions(
        num_worker_threads=3, rpc_timeout=7, init_method="env://x", device_maps={"a": {0: "npu:1"}}, devices=[1]
    )
    assert (options.num_worker_threads, options.rpc_timeout, options.init_method) == (3, 7, "env://x")
    assert options.device_maps == {"a": {FIRST: SECOND}} and options.devices == [SECOND]
    options.set_device_map("a", {0: SECOND})
    options.set_device_map("b", {"npu:1": "cpu"})
    options.set_devices(["npu:0", 1])
    assert options.device_maps == {"a": {FIRST: SECOND}, "b": {SECOND: torch.device("cpu")}}
    assert options.devices == [FIRST, SECOND]


def test_contradictory_maps_and_other_devices_are_refused() -> None:
    name = "NPUTensorPipeRpcBackendOptions"
    options = NPUTensorPipeRpcBackendOptions(device_maps={"a": {0: 1}})
    with pytest.raises(ValueError, match=f"{name}: npu:0 of worker 'a' maps to npu:1, and not to npu:0"):
        options.set_device_map("a", {0: 0})
    with pytest.raises(ValueError, match=f"{name}: a device map must be one to one, got"):
        options.set_device_map("b", {0: 0, 1: 0})
    with pytest.raises(ValueError, match=f"{name}: a device is cuda:0, allowed are those of npu and cpu"):
        options.set_devices(["cuda:0"])


def test_a_call(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    options = NPUTensorPipeRpcBackendOptions(init_method=f"file://{tmp_path}/store", num_worker_threads=2)
    rpc.init_rpc("a", rank=0, world_size=1, rpc_backend_options=options)
    try:
        assert rpc.rpc_sync("a", torch.add, args=(torch.ones(2), 1)).tolist() == [2, 2]
        with pytest.raises(RuntimeError, match="only supports CPU tensors by default"):
            rpc.rpc_sync("a", torch.add, args=(torch.ones(2, device="npu"), 1))
    finally:
        rpc.shutdown()
