# SPDX-License-Identifier: Apache-2.0
"""Kernels see cpu tensors in place of npu tensors. These are used again, unless somebody else holds them."""

from __future__ import annotations

import threading

import pytest
import torch


def test_what_a_kernel_keeps_stays_as_it_is():
    kept = []
    library = torch.library.Library("npugraph_aliases", "DEF")
    library.define("keep(Tensor x) -> Tensor")
    library.impl("keep", lambda x: kept.append(x) or x.clone(), "CPU")
    x = torch.arange(6.0, device="npu").reshape(2, 3)
    for _ in range(3):
        torch.ops.npugraph_aliases.keep(x)
        torch.relu(torch.ones(5, dtype=torch.int8, device="npu"))
        torch.special.erfcx(torch.ones(4, device="npu"))
    assert all(torch.equal(one, x.cpu()) and one.device.type == "cpu" for one in kept)
    assert len({id(one) for one in kept}) == 3
    x.add_(1)
    assert all(torch.equal(one, x.cpu()) for one in kept)


def test_tensors_of_all_kinds_in_turn():
    z = torch.randn(3, 4, dtype=torch.complex64)
    index = torch.tensor([2, 0])
    for _ in range(3):
        for function in (
            lambda x: x + x.conj(),
            lambda x: x.real + 1,
            lambda x: x[index.to(x.device)],
            lambda x: x.abs().to(torch.int32) + torch.tensor(1.5),
            lambda x: torch.add(x.imag.to(torch.float16), 2.5),
            lambda x: torch._foreach_mul([x.real, x.imag], 2.0)[1],
        ):
            want, got = function(z), function(z.npu())
            assert got.dtype == want.dtype and torch.equal(got.cpu(), want)
            with torch.inference_mode():
                assert torch.equal(function(z.npu()).cpu(), want)


def test_memory_goes_with_the_last_tensor():
    before = torch.npu.memory_allocated()
    x = torch.ones(1000, device="npu")
    y = torch.special.erfcx(x)[torch.tensor([1], device="npu")] + x[:1]
    del x, y
    assert torch.npu.memory_allocated() == before


def test_threads_that_end():
    x, index = torch.arange(8.0, device="npu"), torch.tensor([3, 1], device="npu")
    results = []
    for _ in range(4):
        thread = threading.Thread(target=lambda: results.append(x[index] + x.cummax(0).values[index]))
        thread.start()
        thread.join()
    assert all(torch.equal(one.cpu(), torch.tensor([6.0, 2.0])) for one in results) and len(results) == 4


@pytest.mark.parametrize("name", ["cummax", "cummin", "logcumsumexp"])
def test_scans_and_their_gradients_are_those_of_cpu(name: str):
    x = torch.randn(3, 5)
    scan = getattr(torch, name)
    own = x.npu()
    want, got = scan(x, 1), scan(own, 1)
    pairs = [(want, got)] if isinstance(want, torch.Tensor) else list(zip(want, got, strict=True))
    out = [torch.empty(0, dtype=one.dtype, device="npu") for one, _ in pairs]
    scan(own, -1, out=out[0] if len(out) == 1 else tuple(out))
    for (one, other), written in zip(pairs, out, strict=True):
        assert other.device.type == "npu" and torch.equal(one, other.cpu()) and torch.equal(one, written.cpu())
    with pytest.raises(IndexError, match="Dimension out of range"):
        scan(own, 2)
    leaf, own_leaf = x.clone().requires_grad_(), own.clone().requires_grad_()
    for tensor in (leaf, own_leaf):
        result = scan(tensor, 0)
        (result if isinstance(result, torch.Tensor) else result[0]).square().sum().backward()
    assert torch.equal(own_leaf.grad.cpu(), leaf.grad)
