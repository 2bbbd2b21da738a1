# SPDX-License-Identifier: Apache-2.0
"""Training on npu in several processes gives the results of one process: DDP, FSDP2, functional collectives, DTensor,
checkpoints, batch normalisation."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import npugraph
from tests.python.device.ranks import Ranks

STEPS = 2


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    ranks = Ranks(2, tmp_path_factory.mktemp("ranks"))
    yield ranks
    ranks.close()


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4)).double()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the batch of all ranks together, on cpu."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(8, 6, generator=generator, dtype=torch.float64)
    return x, torch.randn(8, 4, generator=generator, dtype=torch.float64)


def train(net: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, forward=None) -> list[float]:
    """Trains for a few steps and returns the losses."""
    forward = net if forward is None else forward
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
    losses = []
    for _ in range(STEPS):
        loss = torch.nn.functional.mse_loss(forward(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def trained() -> torch.nn.Module:
    """Returns the model after the same training in one process, on cpu."""
    net = model()
    train(net, *batch())
    return net


def shard() -> tuple[torch.Tensor, torch.Tensor]:
    rank, size = dist.get_rank(), dist.get_world_size()
    return tuple(tensor.chunk(size)[rank].npu() for tensor in batch())


def check_parameters(net: torch.nn.Module, **tolerance) -> None:
    wanted = dict(trained().named_parameters())
    for name, parameter in net.named_parameters():
        full = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
        assert full.device.type == "npu"
        torch.testing.assert_close(full.detach().cpu(), wanted[name.removeprefix("_orig_mod.")].detach(), **tolerance)


def check_ddp(**options) -> None:
    net = model().npu()
    if dist.get_rank() > 0:
        for parameter in net.parameters():
            torch.nn.init.zeros_(parameter)  # DDP starts with the parameters of rank 0
    ddp = DistributedDataParallel(net, **options)
    x, y = shard()
    with ddp.no_sync():
        torch.nn.functional.mse_loss(ddp(x), y).backward()
    for parameter in net.parameters():
        parameter.grad = None
    train(ddp, x, y)
    check_parameters(net)


@pytest.mark.parametrize(
    "options",
    [{}, {"bucket_cap_mb": 0.0002, "gradient_as_bucket_view": True}, {"find_unused_parameters": True}],
    ids=["plain", "many buckets", "unused"],
)
def test_ddp_trains_like_one_process(ranks, options):
    ranks(check_ddp, **options)


def check_compiled_ddp(backend: str) -> None:
    torch._dynamo.reset()
    net = model().npu()
    ddp = DistributedDataParallel(net)
    train(ddp, *shard(), forward=torch.compile(ddp, backend=backend))
    check_parameters(net)


@pytest.mark.parametrize("backend", ["eager", "npugraph_ex"])
def test_compiled_ddp(ranks, backend):
    ranks(check_compiled_ddp, backend)


def check_fsdp() -> None:
    mesh = init_device_mesh("npu", (dist.get_world_size(),))
    net = model().npu()
    for layer in net:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    assert all(isinstance(parameter, DTensor) for parameter in net.parameters())
    train(net, *shard())
    check_parameters(net)


def test_fsdp_trains_like_one_process(ranks):
    ranks(check_fsdp)


def check_first_fsdp() -> None:
    rank = dist.get_rank()
    torch.npu.set_device(rank)
    try:
        net = FullyShardedDataParallel(model(), device_id=rank, use_orig_params=True)
        train(net, *shard())
        with FullyShardedDataParallel.summon_full_params(net):
            names = [name.removeprefix("_fsdp_wrapped_module.") for name, _ in net.named_parameters()]
            found = dict(zip(names, net.parameters(), strict=True))
            for name, wanted in trained().named_parameters():
                assert found[name].device == torch.device("npu", rank)
                torch.testing.assert_close(found[name].detach().cpu(), wanted.detach())
        assert {value.device.index for value in net.state_dict().values()} == {rank}
    finally:
        torch.npu.set_device(0)


def test_the_first_fsdp(ranks):
    ranks(check_first_fsdp)


def check_mixed_precision() -> None:
    net = model().float().npu()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    fully_shard(net, mp_policy=policy)
    x, y = shard()
    losses = train(net, x.bfloat16(), y.bfloat16())
    assert losses[-1] < losses[0]
    alone = model().float()
    torch.testing.assert_close(losses[0], train(alone, *(t.float() for t in (x.cpu(), y.cpu())))[0], rtol=0.05, atol=0)


def test_fsdp_in_bfloat16(ranks):
    ranks(check_mixed_precision)


def functions(x: torch.Tensor) -> list[torch.Tensor]:
    group = dist.group.WORLD
    return [
        functional.all_reduce(x, "sum", group) * 2,
        functional.all_gather_tensor(x, 0, group),
        functional.reduce_scatter_tensor(x, "avg", 0, group),
        functional.all_to_all_single(x + 1, None, None, group),
        functional.broadcast(x, 1, group),
    ]


def wanted_of_functions(rank: int, size: int) -> list[torch.Tensor]:
    inputs = [given(i) for i in range(size)]
    return [
        2 * sum(inputs),
        torch.cat(inputs),
        (sum(inputs) / size).chunk(size)[rank],
        torch.cat([x.chunk(size)[rank] + 1 for x in inputs]),
        inputs[1],
    ]


def given(rank: int) -> torch.Tensor:
    return torch.arange(12.0).view(4, 3) * (rank + 1)


def check_functional(backend: str | None) -> None:
    torch._dynamo.reset()
    rank, size = dist.get_rank(), dist.get_world_size()
    call = torch.compile(functions, backend=backend, fullgraph=True) if backend else functions
    before = len(npugraph.artifacts())
    for _ in range(2):
        results = call(given(rank).npu())
        for result, wanted in zip(results, wanted_of_functions(rank, size), strict=True):
            assert result.device.type == "npu"
            torch.testing.assert_close(result.cpu(), wanted)
    if backend == "npugraph_ex":
        assert len(npugraph.artifacts()) == before + 1
        assert not npugraph.artifacts()[-1].partitions


@pytest.mark.parametrize("backend", [None, "aot_eager", "npugraph_ex"])
def test_functional_collectives(ranks, backend):
    ranks(check_functional, backend)


def check_dtensor() -> None:
    mesh = init_device_mesh("npu", (dist.get_world_size(),))
    a, b = torch.arange(24.0).view(4, 6), torch.arange(12.0).view(6, 2)
    left = distribute_tensor(a.npu(), mesh, [Shard(1)])
    right = distribute_tensor(b.npu(), mesh, [Shard(0)])
    out = (left @ right).redistribute(mesh, [Replicate()])
    torch.testing.assert_close(out.to_local().cpu(), a @ b)
    torch.testing.assert_close(left.redistribute(mesh, [Shard(0)]).full_tensor().cpu(), a)


def test_distributed_tensors_give_the_product_of_whole_ones(ranks):
    ranks(check_dtensor)


def check_checkpoint(folder: str) -> None:
    from torch.distributed import checkpoint
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

    net = model().npu()
    fully_shard(net)
    before = copy.deepcopy({name: value.full_tensor() for name, value in get_model_state_dict(net).items()})
    checkpoint.save(get_model_state_dict(net), checkpoint_id=folder)
    for parameter in net.parameters():
        torch.nn.init.zeros_(parameter)
    state = get_model_state_dict(net)
    checkpoint.load(state, checkpoint_id=folder)
    set_model_state_dict(net, state)
    for name, value in get_model_state_dict(net).items():
        assert value.device.type == "npu" and torch.equal(value.full_tensor(), before[name])


def test_a_checkpoint_gives_back_sharded_parameters(ranks, tmp_path):
    ranks(check_checkpoint, str(tmp_path))


def normalised(net: torch.nn.Module, x: torch.Tensor, seed: torch.Tensor) -> list[torch.Tensor]:
    """Returns the result, and the gradients of the input and of parameters. A gradient is zeros if there is none."""
    x = x.detach().requires_grad_()
    out = net(x)
    out.backward(seed.to(out))
    leaves = [x, *net.parameters()]
    return [out.detach(), *(torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves)]


def check_batch_norm(dtype: torch.dtype, affine: bool, layout: torch.memory_format, sizes: tuple[int, ...]) -> None:
    """Compares SyncBatchNorm of batches of ``sizes`` on the ranks with BatchNorm of all of them."""
    rank = dist.get_rank()
    generator = torch.Generator().manual_seed(3)
    x = (torch.randn(sum(sizes), 3, 4, 5, generator=generator) * 2 + 1).to(dtype)
    seed = torch.randn(x.shape, generator=generator)
    alone = torch.nn.BatchNorm2d(3, momentum=0.3, affine=affine).double()
    for parameter in alone.parameters():
        torch.nn.init.normal_(parameter, generator=generator)
    together = torch.nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone).float()).npu()
    ours = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    got = normalised(together, x[ours].npu().contiguous(memory_format=layout), seed[ours])
    want = normalised(alone, x.double(), seed.double())
    for gradient in got[2:]:  # training sums up gradients of parameters
        dist.all_reduce(gradient)
    tolerance = {"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        assert g.device.type == "npu" and (i > 1 or g.dtype == dtype)
        torch.testing.assert_close(g.cpu().double(), w[ours] if i < 2 else w, **tolerance)
    for name, buffer in together.named_buffers():
        torch.testing.assert_close(buffer.cpu().double(), alone.get_buffer(name).double(), rtol=1e-3, atol=1e-3)
    together.eval(), alone.eval()
    torch.testing.assert_close(together(x.npu()).cpu().double(), alone(x.double()), **tolerance)


def test_sync_batch_norm(ranks):
    from torch_npu.utils.syncbatchnorm import SyncBatchNorm

    assert issubclass(SyncBatchNorm, torch.nn.modules.batchnorm.sync_batch_norm)
    ranks(check_batch_norm, torch.float32, True, torch.contiguous_format, (3, 3))
    ranks(check_batch_norm, torch.float32, False, torch.channels_last, (1, 4))
    ranks(check_batch_norm, torch.float32, True, torch.contiguous_format, (0, 4))
    ranks(check_batch_norm, torch.bfloat16, True, torch.contiguous_format, (2, 3))


@pytest.mark.long
def test_four_ranks(tmp_path):
    ranks = Ranks(4, tmp_path)
    for check in (check_ddp, check_fsdp, check_dtensor):
        ranks(check)
    ranks(check_functional, None)
    ranks.close()
