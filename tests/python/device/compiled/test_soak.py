# SPDX-License-Identifier: Apache-2.0
"""Four threads on two devices for ten minutes: results stay right, and no memory of a device stays behind."""

from __future__ import annotations

import gc
import os
import random
import threading
import time

import pytest
import torch

from tests.python.device.products_of_npu import ProductsOfNpu

SECONDS = float(os.environ.get("SOAK_SECONDS", 600))
THREADS = 4


def chain(x: torch.Tensor, source: random.Random) -> torch.Tensor:
    """Runs operators in an order that ``source`` decides: new tensors, views, writes, gradients, other sizes."""
    y = x.clone()
    for _ in range(source.randint(1, 8)):
        kind = source.randrange(7)
        if kind == 0:
            y = y @ y.mT.contiguous() / y.shape[-1]
        elif kind == 1:
            y = torch.softmax(y, -1)
        elif kind == 2:
            y[source.randrange(y.shape[0])].mul_(2)
        elif kind == 3:
            y = torch.cat([y, y.flip(0)])[: y.shape[0]]
        elif kind == 4:
            y = y.t().contiguous()
        elif kind == 5:
            leaf = y.detach().requires_grad_()
            (leaf.sin() * leaf).sum().backward()
            y = leaf.grad
        else:
            y = y.sort(-1).values
    return y


def work(index: int, until: float, failures: list[BaseException], rounds: list[int]) -> None:
    try:
        source = random.Random(index)
        device = torch.device("npu", index % 2)
        torch.set_num_threads(1)
        while time.monotonic() < until and not failures:
            n = source.randint(1, 64)
            x = torch.randn(n, n, generator=torch.Generator().manual_seed(source.randrange(1 << 30)))
            state = source.getstate()
            with ProductsOfNpu():
                want = chain(x, source)
            source.setstate(state)
            stream = torch.npu.Stream(device)
            with torch.npu.stream(stream):
                got = chain(x.to(device), source)
            stream.synchronize()
            assert got.device == device
            assert torch.equal(got.cpu().nan_to_num(), want.nan_to_num())
            rounds[index] += 1
    except BaseException as error:
        failures.append(error)


@pytest.mark.long
def test_four_threads_on_two_devices() -> None:
    gc.collect()
    before = [torch.npu.memory_allocated(device) for device in range(2)]
    failures: list[BaseException] = []
    rounds = [0] * THREADS
    until = time.monotonic() + SECONDS
    threads = [threading.Thread(target=work, args=(i, until, failures, rounds)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    assert min(rounds) > 100
    gc.collect()
    assert [torch.npu.memory_allocated(device) for device in range(2)] == before
