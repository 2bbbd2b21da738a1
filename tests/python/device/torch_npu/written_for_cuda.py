# SPDX-License-Identifier: Apache-2.0
"""A script that was written for CUDA, run by test_transfer_to_npu.py."""

import io
import warnings

import torch


def on(index: int) -> torch.device:
    """Returns the npu device that stands for a device of CUDA."""
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
    assert x.type("torch.cuda.DoubleTensor").is_cuda and x.cpu().type(dtype=torch.cuda.HalfTensor).is_cuda
    for function in (torch.empty_like, torch.rand_like, torch.randn_like, torch.zeros_like, torch.ones_like):
        assert function(torch.ones(1), device="cuda:1").device == on(1), function
    assert torch.full_like(torch.ones(1), 2, device="cuda").is_cuda
    assert torch.randint_like(torch.ones(1), 3, device=torch.device("cuda")).is_cuda
    assert torch.normal(0.0, 1.0, (2,), device="cuda").is_cuda and torch.asarray([1], device="cuda").is_cuda
    assert torch.fft.fftfreq(3, device="cuda").is_cuda and torch.fft.rfftfreq(3, device="cuda").is_cuda
    assert torch.signal.windows.hann(3, device="cuda").is_cuda
    assert torch.nested.nested_tensor([torch.ones(1)], layout=torch.jagged, device="cuda").is_cuda


def defaults() -> None:
    torch.set_default_device("cuda")
    assert torch.ones(1).is_cuda
    torch.set_default_device(None)
    with torch.device("cuda:1"):
        assert torch.ones(1).device == on(1) and torch.nn.Linear(1, 1).weight.device == on(1)
    assert not torch.ones(1).is_cuda
    for kind in ("torch.cuda.DoubleTensor", torch.cuda.DoubleTensor):
        torch.set_default_tensor_type(kind)
        assert torch.ones(1).is_cuda and torch.ones(1).dtype == torch.float64
        torch.set_default_tensor_type(torch.FloatTensor)
        assert not torch.ones(1).is_cuda and torch.ones(1).dtype == torch.float32


def functions_of_torch_cuda() -> None:
    """Calls functions that need nothing but a device."""
    names = (
        "default_stream get_device_capability get_device_name get_device_properties max_memory_allocated "
        "max_memory_reserved mem_get_info memory_allocated memory_reserved memory_stats memory_summary "
        "reset_max_memory_allocated reset_peak_memory_stats current_stream get_rng_state synchronize utilization "
        "set_device Stream device"
    )
    for name in names.split():
        function = getattr(torch.cuda, name)
        for device in ("cuda:1", torch.device("cuda:1"), torch.device("cuda", 0), "cuda", 0):
            function(device)
        function(device="cuda:0")
    assert torch.cuda.Stream("cuda:1").device == on(1) and torch.cuda.default_stream("cuda:1").device == on(1)
    with torch.cuda.device("cuda:1"):
        assert torch.cuda.current_device() == 1 and torch.accelerator.current_stream("cuda:0").device == on(0)
    torch.cuda.set_rng_state(torch.cuda.get_rng_state("cuda:1"), device=torch.device("cuda:1"))
    torch.accelerator.synchronize("cuda:0")
    assert torch.cuda.can_device_access_peer(device="cuda:0", peer_device="cuda:1")
    x, graph = torch.ones(2, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(cuda_graph=graph):
        y = x * 2
    x.fill_(3)
    graph.replay()
    assert y.tolist() == [6, 6]
    torch.cuda.set_device("cuda:0")


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
    first = torch.cuda.get_rng_state()
    for arguments in ({"devices": [0], "device_type": "cuda"}, {"devices": ["cuda:0"]}, {"devices": [on(0)]}):
        with torch.random.fork_rng(**arguments):
            torch.rand(1, device="cuda")
        assert torch.equal(torch.cuda.get_rng_state(), first)
    torch.cuda.nvtx.range_push("range")
    torch.cuda.nvtx.range_pop()


def training() -> None:
    x = torch.ones(2, 3, device="cuda")
    model = torch.nn.Linear(3, 4).cuda()
    assert model.weight.is_cuda
    assert model.to("cuda:1").weight.device == on(1)
    assert model.to(device=torch.device("cuda:0")).weight.device == on(0)
    for move in (lambda one: one.to("cuda"), lambda one: one.cuda(), lambda one: one.half().to("cuda").float()):
        for lazy in (torch.nn.LazyLinear(3), torch.nn.LazyBatchNorm1d()):
            assert move(lazy)(x.detach()).is_cuda and all(one.is_cuda for one in lazy.state_dict().values())
    with torch.autocast("cuda", dtype=torch.float16):
        assert model(x).dtype == torch.float16 and torch.is_autocast_enabled("cuda")
    with torch.cuda.amp.autocast():
        assert model(x).dtype == torch.float16
    parallel = torch.nn.DataParallel(model, ["cuda:0", "cuda:1"])
    torch.testing.assert_close(parallel(x), model(x))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for scaler in (torch.cuda.amp.GradScaler(), torch.amp.GradScaler("cuda")):
        scaler.scale(model(x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    loader = torch.utils.data.DataLoader([1.0, 2.0], pin_memory=True)
    assert [one.cuda(non_blocking=True).is_cuda for one in loader] == [True, True]


def process_groups() -> None:
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl", store=store, rank=0, world_size=1)
    mesh = torch.distributed.init_device_mesh("cuda", (1,))
    assert mesh.device_type == "npu" and torch.distributed.get_default_backend_for_device("cuda") == "hccl"
    x = torch.ones(2, device="cuda")
    torch.distributed.all_reduce(x, group=mesh.get_group())
    model = torch.nn.Linear(2, 2).cuda()
    for devices in ([0], ["cuda:0"], [torch.device("cuda:0")]):
        assert torch.nn.parallel.DistributedDataParallel(model, devices)(x).is_cuda
    torch.distributed.destroy_process_group()


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
        b = torch.full_like(a, 1.0, device="cuda") + torch.fft.fftfreq(3, device="cuda") * 0
        return (a @ torch.ones(3, 3, device="cuda")).relu() * b

    with torch.no_grad():
        assert compiled(x).is_cuda and torch.equal(compiled(x).cpu(), torch.full((2, 3), 3.0))


def compiling() -> None:
    import npugraph

    x, model = torch.ones(2, 3, device="cuda"), torch.nn.Linear(3, 4).cuda()

    @torch.compile(mode="max-autotune", fullgraph=True)
    def decorated(x: torch.Tensor) -> torch.Tensor:
        return model(x)

    class Other(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return model(x) * 2

    with warnings.catch_warnings(record=True) as warned:
        for_inductor = torch.compile(model, options={"max_autotune": True, "static_kernel_compile": False})
    assert "does not have are left out: max_autotune" in str(warned[-1].message)
    other = Other()
    other.compile()
    with torch.no_grad():
        for compiled, eager in (
            (torch.compile(model), model),
            (torch.compile(model, mode="reduce-overhead"), model),
            (decorated, model),
            (for_inductor, model),
            (other, other.forward),
        ):
            npugraph.reset()
            torch.testing.assert_close(compiled(x), eager(x))
            assert len(npugraph.artifacts()) == 1
        npugraph.reset()
        torch.testing.assert_close(torch.compile(model, backend="eager")(x), model(x))
        assert not npugraph.artifacts()


for part in (tensors, defaults, devices, functions_of_torch_cuda, training, process_groups, files, tools, compiling):
    part()
