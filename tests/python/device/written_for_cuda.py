# SPDX-License-Identifier: Apache-2.0
"""A script that was written for CUDA, run by test_transfer_to_npu.py."""

import io
import warnings

import torch


def on(index: int) -> torch.device:
    """What a device of CUDA becomes."""
    return torch.device("npu", index)


def tensors() -> None:
    x = torch.ones(2, 3).cuda()
    assert x.is_cuda and x.device == on(0) and not torch.ones(1).is_cuda
    assert torch.zeros(2, device="cuda:1").device == on(1)
    assert torch.zeros(2, device=torch.device("cuda", 1)).device == on(1)
    assert torch.zeros(2, device=1).device == on(1)
    assert torch.tensor([1.0], device="cuda").is_cuda and torch.randn(2).to("cuda:1").device == on(1)
    assert x.new_zeros(2, device="cuda:1").device == on(1) and x.cpu().cuda(1).device == on(1)
    assert torch.arange(3, device="cuda").is_cuda and torch.randint(0, 5, (2,), device="cuda").is_cuda
    assert torch.cuda.FloatTensor([1]).is_cuda
    torch.set_default_device("cuda")
    assert torch.ones(1).is_cuda
    torch.set_default_device(None)


def devices() -> None:
    assert torch.cuda.is_available() and torch.cuda.device_count() == torch.npu.device_count()
    assert torch.cuda.memory_allocated() == torch.npu.memory_allocated()
    assert torch.cuda.get_device_capability() == (8, 0) and torch.cuda.get_device_name(0) == torch.npu.get_device_name(
        0
    )
    torch.cuda.set_device(0)
    torch.cuda.synchronize()
    torch.cuda.manual_seed_all(3)
    stream, event = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream):
        event.record()
        assert torch.cuda.current_stream() == stream
    generator = torch.Generator("cuda").manual_seed(1)
    assert isinstance(generator, torch.Generator) and generator.device.type == "npu"
    assert torch.randn(2, device="cuda", generator=generator).is_cuda
    assert isinstance(torch.Event("cuda"), torch.Event)
    with torch.random.fork_rng(devices=[0], device_type="cuda"):
        torch.rand(1, device="cuda")
    torch.cuda.nvtx.range_push("range")
    torch.cuda.nvtx.range_pop()


def training() -> None:
    x = torch.ones(2, 3, device="cuda")
    model = torch.nn.Linear(3, 4).cuda()
    assert model.weight.is_cuda
    assert model.to("cuda:1").weight.device == on(1)
    assert model.to(device=torch.device("cuda:0")).weight.device == on(0)
    with torch.autocast("cuda", dtype=torch.float16):
        assert model(x).dtype == torch.float16 and torch.is_autocast_enabled("cuda")
    with torch.cuda.amp.autocast():
        assert model(x).dtype == torch.float16
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for scaler in (torch.cuda.amp.GradScaler(), torch.amp.GradScaler("cuda")):
        scaler.scale(model(x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    loader = torch.utils.data.DataLoader([1.0, 2.0], pin_memory=True)
    assert [one.cuda(non_blocking=True).is_cuda for one in loader] == [True, True]


def files() -> None:
    buffer = io.BytesIO()
    torch.save(torch.ones(2, device="cuda"), buffer)
    for where in ("cuda:1", {"npu:0": "cuda:1"}, torch.device("cuda:1")):
        buffer.seek(0)
        assert torch.load(buffer, map_location=where).device == on(1)


def tools() -> None:
    x = torch.ones(2, 3, device="cuda")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert torch.jit.script(files) is files
    assert any("torch.jit.script does nothing" in str(one.message) for one in caught)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as prof:
        x @ x.t()
    assert "aten::mm" in {event.key for event in prof.key_averages()}

    @torch.compile(backend="npugraph_ex", fullgraph=True)
    def compiled(a: torch.Tensor) -> torch.Tensor:
        return (a @ torch.ones(3, 3, device="cuda")).relu()

    with torch.no_grad():
        assert compiled(x).is_cuda and torch.equal(compiled(x).cpu(), torch.full((2, 3), 3.0))


for part in (tensors, devices, training, files, tools):
    part()
