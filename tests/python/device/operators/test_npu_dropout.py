# SPDX-License-Identifier: Apache-2.0
"""Operators of src/device/npu_ops/layers/dropout.cc: the share of dropped elements, and the meaning of masks."""

from __future__ import annotations

import pytest
import torch
import torch_npu

from tests.python.device.npu_operators import check, check_close, check_refused, normal


def bits_of(mask: torch.Tensor, count: int) -> torch.Tensor:
    return torch.tensor([mask[i // 8] >> (i % 8) & 1 for i in range(count)], dtype=torch.float64)


def packed(count: int) -> torch.Tensor:
    return torch.randint(0, 256, (-(-count // 128) * 16,), generator=torch.Generator().manual_seed(0)).to(torch.uint8)


def test_masks_in_bits() -> None:
    x, mask = normal(10, 13), packed(130)

    def reference(x, mask, p):
        return x * bits_of(mask, 130).view(10, 13) / (1 - p)

    check(torch_npu.npu_dropout_do_mask, (x, mask, 0.25), lambda x, m, p: (reference(x, m, p), m))
    check(torch_npu.npu_dropout_backward, (x, mask, 0.25), reference)


def test_masks_in_bytes() -> None:
    mask = packed(12)[:12] % 2
    run = torch.ops.npu._dropout_with_byte_mask_backward
    check(run, (normal(3, 4), mask, 0.5), lambda x, m, p: x * m.view(3, 4) / (1 - p))


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_the_mask_says_which_elements_are_kept(p: float) -> None:
    ops = torch.ops.npu
    x = (normal(100, 100).abs() + 1).npu().requires_grad_()
    y, mask = ops._npu_dropout(x, p)
    assert mask.dtype == torch.uint8
    assert mask.numel() == -(-10000 // 128) * 16
    kept = bits_of(mask.cpu(), 10000).view(100, 100)
    check_close(y.detach().cpu(), x.detach().cpu().double() * kept / ((1 - p) or 1))
    assert abs(kept.mean() - (1 - p)) < 0.02
    y.sum().backward()
    check_close(x.grad.cpu(), kept / ((1 - p) or 1))
    y, mask = ops._dropout_with_byte_mask(x.detach(), p)
    check_close(y.cpu(), x.detach().cpu() * mask.cpu().view(100, 100) / ((1 - p) or 1))
    assert torch.equal(ops.dropout_with_byte_mask(x.detach(), p, False), x.detach())
    share = (ops.dropout_with_byte_mask(x.detach(), p, True) == 0).cpu().double().mean()
    assert abs(share - p) < 0.02


def test_masks_by_themselves() -> None:
    mask = torch_npu.npu_dropout_gen_mask((100, 97), 0.3, dtype=torch.float32, device="npu")
    assert (mask.dtype, mask.shape, mask.device.type) == (torch.uint8, (-(-9700 // 128) * 16,), "npu")
    x = torch.ones(100, 97, device="npu")
    y, _ = torch_npu.npu_dropout_do_mask(x, mask, 0.3)
    assert abs((y == 0).double().mean().item() - 0.3) < 0.02
    for p, byte in ((0.0, 255), (1.0, 0)):
        assert torch.equal(torch_npu.npu_dropout_gen_mask((3,), p).cpu(), torch.full((16,), byte, dtype=torch.uint8))
    assert torch_npu.npu_dropout_gen_mask((3,), 0.5, device="meta").shape == (16,)
    with pytest.raises(RuntimeError, match=r"npu_dropout_gen_mask: the share of elements to drop is 2, allowed are 0"):
        torch_npu.npu_dropout_gen_mask((3,), 2.0)
    with pytest.raises(NotImplementedError, match=r"npu_dropout_gen_mask: device is cpu, allowed is npu"):
        torch_npu.npu_dropout_gen_mask((3,), 0.5, device="cpu")


def test_masks_of_a_seed_are_those_of_attention() -> None:
    query, key = (normal(2, 4, 5, 8, seed=i).npu() for i in range(2))
    value = torch.eye(5).expand(2, 4, 5, 5).contiguous().npu()  # so that results are weights
    weights, *_, seed, offset, number = torch_npu.npu_fusion_attention(query, key, value, 4, "BNSD", keep_prob=0.7)
    assert number == 2 * 4 * 5 * 5
    mask = torch_npu._npu_dropout_gen_mask(query, (2, 4, 5, 5), 0.3, seed, offset)
    assert (mask.dtype, mask.device, mask.shape) == (torch.uint8, query.device, (-(-number // 128) * 16,))
    assert torch.equal(bits_of(mask.cpu(), number).view(2, 4, 5, 5) != 0, weights.cpu() != 0)
    torch.npu.manual_seed(2)
    weights, *_, seed, offset, _ = torch_npu.npu_fusion_attention(query, key, value, 4, "BNSD", keep_prob=0.7)
    assert (seed, offset) == (2, 0)
    mask = torch_npu._npu_dropout_gen_mask(query, [number], p=0.3, seed=2, offset=0)
    assert torch.equal(bits_of(mask.cpu(), number).view(2, 4, 5, 5) != 0, weights.cpu() != 0)


def test_masks_of_a_seed() -> None:
    gen_mask = torch_npu._npu_dropout_gen_mask
    x, before = torch.empty(3).npu(), torch.npu.get_rng_state()
    mask = gen_mask(x, (100, 97), p=0.3, seed=5, offset=16, parallel=True, sync=False)
    assert torch.equal(mask, gen_mask(x, (9700,), 0.3, 5, 16))
    assert torch.equal(torch.npu.get_rng_state(), before)
    assert abs(bits_of(mask.cpu(), 9700).mean() - 0.7) < 0.02
    for other in ((6, 16), (5, 17)):
        share = (bits_of(mask.cpu(), 9700) == bits_of(gen_mask(x, (9700,), 0.3, *other).cpu(), 9700)).double().mean()
        assert abs(share - (0.7**2 + 0.3**2)) < 0.03
    for p, byte in ((0.0, 255), (1.0, 0)):
        assert gen_mask(x, (128,), p, 5, 0).unique().tolist() == [byte]
    check_refused(
        "_npu_dropout_gen_mask", "the share of elements to drop is 1.5, allowed are 0 to 1", x, (3,), 1.5, 0, 0
    )

    def applied(x):
        return torch_npu.npu_dropout_do_mask(x, gen_mask(x, x.shape, 0.3, 5, 16), 0.3)[0]

    x = normal(100, 97).npu()
    got = torch.compile(applied, backend="npugraph_ex", fullgraph=True)(x)
    check_close(got.cpu(), x.cpu().double() * bits_of(mask.cpu(), 9700).view(100, 97) / 0.7)


def test_dropout_of_a_softmax() -> None:
    x, other = normal(2, 3, 8), normal(2, 3, 8, seed=1)
    mask, softmax, out = torch_npu.npu_dropout_with_add_softmax(x.npu(), other.npu(), 0.5, 0.25, -1)
    want = (other.double() + 0.5 * x.double()).softmax(-1)
    check_close(softmax.cpu(), want)
    check_close(out.cpu(), want * mask.cpu() / 0.75)

    def backward(grad, mask, softmax, alpha, prob, dim):
        leaves = x.double().requires_grad_(), other.double().requires_grad_()
        ((leaves[1] + alpha * leaves[0]).softmax(dim) * mask / (1 - prob)).backward(grad)
        return leaves[0].grad, leaves[1].grad

    args = (normal(2, 3, 8, seed=2), mask.cpu(), softmax.cpu(), 0.5, 0.25, -1)
    check(torch_npu.npu_dropout_with_add_softmax_backward, args, backward)


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_random_choice_with_mask(device: str) -> None:
    x = torch.zeros(4, 5, dtype=torch.bool)
    x[[0, 1, 2, 3], [4, 0, 2, 2]] = True
    for count in (2, 6, 30):
        places, valid = (out.cpu() for out in torch_npu.npu_random_choice_with_mask(x.to(device), count))
        assert places.shape == (count, 2)
        assert int(valid.sum()) == min(count, 4)
        chosen = {tuple(place) for place in places[valid].tolist()}
        assert len(chosen) == min(count, 4)
        assert all(x[place] for place in chosen)
        assert not places[~valid].any()
    chances = [torch_npu.npu_random_choice_with_mask(x.to(device), 1)[0][0].tolist() for _ in range(40)]
    assert len({tuple(place) for place in chances}) > 1


def test_sim_exponential() -> None:
    x = torch.empty(10000).npu()
    assert torch_npu.npu_sim_exponential_(x, 2.0) is x
    assert (x > 0).all()
    assert abs(x.mean().item() - 0.5) < 0.03


def test_impossible_shares_and_short_masks_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"_npu_dropout: the share of elements to drop is 1.5, allowed are 0 to 1"):
        torch.ops.npu._npu_dropout(normal(3), 1.5)
    with pytest.raises(RuntimeError, match=r"npu_dropout_do_mask: mask has 8 bits, and not 9"):
        torch_npu.npu_dropout_do_mask(normal(9), torch.zeros(1, dtype=torch.uint8), 0.5)
