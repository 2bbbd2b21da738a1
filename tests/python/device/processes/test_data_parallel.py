# SPDX-License-Identifier: Apache-2.0
"""torch.nn.DataParallel on the devices of one process, and the functions that it is made of."""

from __future__ import annotations

import copy

import pytest
import torch
import torch_npu  # noqa: F401
from torch.nn.parallel import comm


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 5)
        self.register_buffer("shift", torch.randn(5))
        self.devices: list[int] = []  # one list, which replicas share

    def forward(self, x: torch.Tensor, *, factor: float) -> dict[str, torch.Tensor]:
        self.devices.append(x.get_device())
        return {"y": (self.linear(x) + self.shift).relu() * factor}


@pytest.mark.parametrize("ids", [None, [1, 0], [1]])
def test_a_training_step_is_that_of_one_device(ids: list[int] | None) -> None:
    torch.manual_seed(0)
    alone, x = Net(), torch.randn(7, 4)
    used = sorted(ids or [0, 1])
    net = torch.nn.DataParallel(copy.deepcopy(alone).to(f"npu:{(ids or [0])[0]}"), ids)
    got, want = net(x.npu(), factor=2.0)["y"], alone(x, factor=2.0)["y"]
    assert sorted(net.module.devices) == used and got.device == torch.device("npu", net.output_device)
    torch.testing.assert_close(got.cpu(), want)
    got.square().sum().backward()
    want.square().sum().backward()
    for one, same in zip(net.parameters(), alone.parameters(), strict=True):
        assert one.grad.device == one.device
        torch.testing.assert_close(one.grad.cpu(), same.grad)


def test_copies_parts_and_joins() -> None:
    x = torch.arange(10.0, device="npu").reshape(5, 2)
    for copies in (comm.broadcast(x, [0, 1]), comm.broadcast(x.cpu(), ["npu:0", "npu:1"])):
        assert [one.get_device() for one in copies] == [0, 1] and all(torch.equal(one.cpu(), x.cpu()) for one in copies)
    out = [torch.empty_like(x, device="npu:1"), torch.empty_like(x)]
    copies = comm.broadcast(x, out=out)
    assert len(copies) == 2 and all(torch.equal(one.cpu(), x.cpu()) for one in copies)
    (a, b), (c, d) = comm.broadcast_coalesced([x, x + 1], [0, 1])
    assert torch.equal(a.cpu(), c.cpu()) and torch.equal(b.cpu(), d.cpu()) and d.get_device() == 1
    for source in (x, x.cpu()):
        parts = comm.scatter(source, [0, 1])
        assert [tuple(one.shape) for one in parts] == [(3, 2), (2, 2)] and parts[1].get_device() == 1
        assert [one.size(0) for one in comm.scatter(source, [1, 0], [1, 4])] == [1, 4]
        assert [one.size(1) for one in comm.scatter(source, [1, 0], dim=1)] == [1, 1]
    comm.scatter(x, out=[x.new_empty(1, 2), torch.empty(4, 2, device="npu:1")])
    assert torch.equal(comm.gather(parts, 0, 1), x.to("npu:1")) and comm.gather(parts).device == x.device
    assert torch.equal(comm.gather(parts, destination="cpu"), x.cpu())
    assert torch.equal(comm.gather(parts, out=torch.empty_like(x)), x)
    assert torch.equal(comm.reduce_add([x, x.to("npu:1")], 1).cpu(), 2 * x.cpu())
