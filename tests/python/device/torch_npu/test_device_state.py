# SPDX-License-Identifier: Apache-2.0
"""Streams, events, memory, random numbers, pinned memory and files on npu."""

from __future__ import annotations

import gc
import io
import os

import numpy
import pytest
import torch
import torch_npu
from torch.testing._internal.common_utils import freeze_rng_state

import npugraph
from tests.python.forks import run_python


def test_the_current_stream_follows_its_contexts():
    default = torch.npu.current_stream()
    assert isinstance(default, torch.npu.Stream) and default == torch.npu.default_stream()
    stream = torch.npu.Stream()
    assert stream != default and stream.device == torch.device("npu:0")
    with torch.npu.stream(stream):
        assert torch.npu.current_stream() == stream
        with torch.npu.stream(None):
            assert torch.npu.current_stream() == stream
    assert torch.npu.current_stream() == default
    same = torch.npu.Stream(
        stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
    )
    assert same == stream and torch.npu.ExternalStream(stream.npu_stream) == stream
    stream.wait_stream(default)
    stream.synchronize()
    assert stream.query()
    torch.npu.synchronize()


def test_priorities_of_streams_are_kept():
    assert torch.npu.Stream.priority_range() == (0, -1)
    assert torch.npu.Stream().priority == torch.npu.default_stream().priority == 0
    for priority, kept in ((0, 0), (-1, -1), (-5, -1)):
        stream = torch.npu.Stream(priority=priority)
        with torch.npu.stream(stream):
            assert stream.priority == torch.npu.current_stream().priority == kept


def test_a_stream_of_another_device_brings_its_device():
    stream = torch.npu.Stream("npu:1")
    with torch.npu.stream(stream):
        assert torch.npu.current_device() == 1 and torch.npu.current_stream() == stream
    assert torch.npu.current_device() == 0
    assert torch.npu.current_stream("npu:1") == torch.npu.default_stream("npu:1")


def test_two_streams_are_never_the_same():
    handles = {torch.npu.Stream(device).npu_stream for device in ("npu:0", "npu:1") for _ in range(64)}
    assert len(handles) == 128 and 0 not in handles


def test_events_keep_time():
    begin, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
    assert begin.query()
    with pytest.raises(RuntimeError, match="recorded"):
        begin.elapsed_time(end)
    begin.record()
    torch.ones(64, 64, device="npu").mm(torch.ones(64, 64, device="npu"))
    end.record()
    end.synchronize()
    assert end.query() and begin.elapsed_time(end) > 0
    assert end.recorded_time() > begin.recorded_time() > 0
    stream = torch.npu.Stream()
    end.wait(stream)
    stream.wait_event(end)
    assert isinstance(stream.record_event(), torch.Event)


def test_events_without_timing_say_so():
    begin, end = torch.npu.Event(), torch.npu.Event()
    begin.record()
    end.record()
    with pytest.raises(RuntimeError, match="enable_timing"):
        begin.elapsed_time(end)


def test_memory_is_counted():
    gc.collect()
    before = torch.npu.memory_allocated()
    torch.npu.reset_peak_memory_stats()
    x = torch.empty(1 << 20, device="npu")
    assert torch.npu.memory_allocated() - before == 4 << 20
    y = x + 1  # made by a CPU kernel
    z = x.view(2, -1)
    assert torch.npu.memory_allocated() - before == 8 << 20
    del x
    assert torch.npu.memory_allocated() - before == 8 << 20  # the view holds it
    del y, z
    assert torch.npu.memory_allocated() == before
    assert torch.npu.max_memory_allocated() - before == 8 << 20
    torch.npu.reset_peak_memory_stats()
    assert torch.npu.max_memory_allocated() == before
    stats = torch.npu.memory_stats()
    assert stats["allocated_bytes.all.current"] == before and "allocated_bytes.all.peak" in stats
    assert torch.npu.memory_stats_as_nested_dict()["allocated_bytes"]["all"]["current"] == before
    assert "allocated_bytes all" in torch.npu.memory_summary()


def test_resizing_is_counted():
    gc.collect()
    before = torch.npu.memory_allocated()
    x = torch.empty(0, device="npu")
    x.resize_(1000)
    assert torch.npu.memory_allocated() - before == 4000
    torch.add(torch.tensor(1.0), torch.ones(3000), out=torch.empty(0))
    torch.ones(3000, out=x.resize_(0))
    assert torch.npu.memory_allocated() - before == 12000
    x.untyped_storage().resize_(0)
    assert torch.npu.memory_allocated() == before


def test_a_storage_without_bytes_keeps_its_device():
    gc.collect()
    before = [torch.npu.memory_allocated(index) for index in range(2)]
    x = torch.arange(4, dtype=torch.int32, device="npu:1")
    storage = x.untyped_storage()
    storage.resize_(0)  # as FSDP frees parameters
    assert (storage.device, storage.nbytes(), x.data_ptr()) == (x.device, 0, 0) and storage.is_npu
    assert [torch.npu.memory_allocated(index) for index in range(2)] == before
    storage.resize_(16)
    assert storage.device == x.device
    assert [torch.npu.memory_allocated(index) for index in range(2)] == [before[0], before[1] + 16]
    x.copy_(torch.arange(4))
    storage.resize_(32)
    assert (x + 1).tolist() == [1, 2, 3, 4]
    storage.resize_(8)
    assert torch.empty(0, dtype=torch.int32, device="npu:1").set_(storage).tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["shared", "loaded", "loaded as mapped"])
def test_storages_from_elsewhere_can_be_emptied(kind: str, tmp_path):
    x = torch.arange(4, dtype=torch.int32, device="npu:1")
    if kind == "shared":
        x.share_memory_()
    else:
        torch.save(x, tmp_path / "x.pt")
        x = torch.load(tmp_path / "x.pt", mmap=kind.endswith("mapped"))
    storage = x.untyped_storage()
    storage.resize_(0)
    assert storage.device == torch.device("npu:1") and storage.nbytes() == 0
    storage.resize_(16)
    assert x.fill_(3).tolist() == [3] * 4


def test_a_borrowed_storage_frees_nothing():
    x = torch.arange(4, dtype=torch.int32, device="npu")
    weak = torch_npu._C._weak_ref_tensor(x[1:])
    assert weak.data_ptr() == x.data_ptr() + 4 and weak.tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="storage that is not resizable"):
        weak.untyped_storage().resize_(0)
    x.add_(1)
    assert weak.tolist() == [2, 3, 4]
    x.untyped_storage().resize_(0)
    assert weak.tolist() == [2, 3, 4]


def test_each_device_has_memory_of_its_own():
    gc.collect()
    before = [torch.npu.memory_allocated(index) for index in range(2)]
    x = torch.ones(1000, device="npu:1")
    y = x * 2
    assert torch.npu.memory_allocated(0) == before[0]
    assert torch.npu.memory_allocated(1) - before[1] == 8000
    total = torch.npu.get_device_properties(1).total_memory
    assert torch.npu.mem_get_info(1) == (total - sum(before) - 8000, total)  # both devices share the memory of the host
    del x, y


def test_more_than_the_device_has():
    total = torch.npu.get_device_properties().total_memory
    with pytest.raises(torch.OutOfMemoryError, match=r"NPU out of memory. Tried to allocate \d+.\d+ GiB"):
        torch.empty(2 * total, dtype=torch.uint8, device="npu")
    torch.npu.set_per_process_memory_fraction((torch.npu.memory_allocated() + (1 << 20)) / total)
    try:
        x = torch.zeros(1000, device="npu")
        with pytest.raises(torch.OutOfMemoryError):
            x.repeat(1000)
        assert torch.npu.memory_stats()["num_ooms"] >= 2
    finally:
        torch.npu.set_per_process_memory_fraction(1)
    assert x.sum().item() == 0


def test_more_than_the_host_has():
    code = """
import torch
assert torch.npu.OutOfMemoryError is torch.OutOfMemoryError
try:
    torch.empty(1 << 50, dtype=torch.uint8, device="npu:1")
except torch.npu.OutOfMemoryError as error:
    assert "Tried to allocate 1048576.00 GiB (NPU 1; 4194304.00 GiB total capacity; 0 bytes" in str(error), error
    assert "The memory of the device is the host's, which has not as much left." in str(error), error
assert torch.npu.memory_allocated(1) == 0 and torch.npu.memory_stats(1)["num_ooms"] == 1
one = torch.ones(1, device="npu")
for kernel in (lambda: one.expand(1 << 48) + one, lambda: torch.cumsum(one.expand(1 << 48), 0)):
    try:
        kernel()
    except torch.OutOfMemoryError as error:
        assert "Tried to allocate 1048576.00 GiB (NPU 0; 4194304.00 GiB total capacity; 4 bytes" in str(error), error
    else:
        raise AssertionError("no error")
try:
    one.view(3)
except RuntimeError as error:
    assert not isinstance(error, torch.OutOfMemoryError)
"""
    environment = os.environ | {"NPUGRAPH_DEVICE_MEMORY": str(1 << 52)}
    run_python("-c", code, check=True, env=environment)


def test_memory_snapshot_lists_every_piece():
    x = torch.empty(1 << 18, device="npu:1")
    found = [one for one in torch.npu.memory_snapshot() if one["address"] == x.data_ptr()]
    assert len(found) == 1 and found[0]["device"] == 1 and found[0]["total_size"] == 1 << 20
    assert found[0]["blocks"][0]["state"] == "active_allocated" and found[0]["segment_type"] == "large"


def test_pinned_memory():
    x = torch.randn(100)
    assert not x.is_pinned()
    y = x.pin_memory()
    assert y.is_pinned() and y[50:].is_pinned() and y.is_cpu and torch.equal(x, y)
    assert torch.empty(3, pin_memory=True).is_pinned()
    assert torch.equal(y.to("npu", non_blocking=True).cpu(), x)
    assert torch.npu.host_memory_stats()["allocated_bytes.current"] >= 400


@pytest.mark.parametrize(
    "draw",
    [
        lambda device: torch.randn(64, device=device),
        lambda device: torch.rand(7, device=device),
        lambda device: torch.randint(0, 100, (9,), device=device),
        lambda device: torch.randperm(33, device=device),
        lambda device: torch.empty(5, device=device).exponential_(),
        lambda device: torch.bernoulli(torch.full((50,), 0.5, device=device)),
        lambda device: torch.multinomial(torch.ones(10, device=device), 5),
        lambda device: torch.nn.functional.dropout(torch.ones(50, device=device), 0.3),
        lambda device: torch.normal(torch.zeros(8, device=device), torch.ones(8, device=device)),
    ],
)
def test_random_numbers_are_those_of_cpu(draw):
    torch.manual_seed(7)
    cpu, again = draw("cpu"), draw("cpu")
    torch.manual_seed(7)
    npu, npu_again = draw("npu"), draw("npu")
    assert torch.equal(npu.cpu(), cpu) and torch.equal(npu_again.cpu(), again)


def test_equal_states_of_generators_draw_equal_numbers():
    torch.npu.manual_seed(3)
    state = torch.npu.get_rng_state()
    x = torch.randn(5, device="npu")
    torch.npu.set_rng_state(state)
    assert torch.equal(torch.randn(5, device="npu"), x)
    generator = torch.Generator("npu").manual_seed(3)
    assert generator.device.type == "npu" and torch.npu.initial_seed() == generator.initial_seed() == 3
    assert torch.equal(torch.randn(5, device="npu", generator=generator), x)
    other = torch.Generator("npu")
    other.set_state(generator.get_state())
    assert torch.equal(torch.rand(5, device="npu", generator=other), torch.rand(5, device="npu", generator=generator))
    with pytest.raises(RuntimeError, match="Expected a 'npu' device type for generator but found 'cpu'"):
        torch.randn(5, device="npu", generator=torch.Generator())


@pytest.mark.parametrize(
    "draw",
    [
        lambda g: torch.randn(5, generator=g),
        lambda g: torch.rand(5, generator=g),
        lambda g: torch.randint(9, (5,), generator=g),
        lambda g: torch.randperm(5, generator=g),
        lambda g: torch.multinomial(torch.ones(3), 2, generator=g),
        lambda g: torch.bernoulli(torch.full((3,), 0.5), generator=g),
        lambda g: torch.normal(torch.zeros(3), 1.0, generator=g),
        lambda g: torch.poisson(torch.ones(3), generator=g),
        lambda g: torch.empty(3).uniform_(generator=g),
        lambda g: torch.empty(3).exponential_(generator=g),
        lambda g: torch.empty(3).random_(generator=g),
    ],
)
def test_a_generator_of_npu_draws_nothing_on_cpu(draw):
    generator = torch.Generator("npu")
    state = generator.get_state()
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device type for generator but found 'npu'"):
        draw(generator)
    assert torch.equal(generator.get_state(), state)


def test_devices_have_generators_of_their_own():
    torch.npu.manual_seed_all(5)
    x = torch.randn(3, device="npu:0")
    assert torch.equal(torch.randn(3, device="npu:1").cpu(), x.cpu())
    states = torch.npu.get_rng_state_all()
    y = torch.randn(3, device="npu:1")
    torch.npu.set_rng_state_all(states)
    assert torch.equal(torch.randn(3, device="npu:1"), y)


def test_compiled_code_restores_generators_where_fake_tensors_cannot_be_made():
    def fn(x):
        with freeze_rng_state():
            return x + torch.rand(3, device="npu")

    torch._dynamo.reset()
    x = torch.zeros(3).npu()
    torch.npu.manual_seed(0)
    got = torch.compile(fn, backend="npugraph_ex")(x)
    torch.testing.assert_close(fn(x), got)


def test_fork_rng_restores_npu():
    torch.manual_seed(1)
    with torch.random.fork_rng(device_type="npu"):
        torch.randn(10, device="npu")
    x = torch.randn(4, device="npu")
    torch.manual_seed(1)
    assert torch.equal(torch.randn(4, device="npu"), x)


def test_tensors_are_loaded_on_the_device_asked_for(tmp_path):
    x = torch.randn(4, 3, device="npu:1")
    path = tmp_path / "x.pt"
    torch.save({"x": x, "view": x[1]}, path)
    loaded = torch.load(path)
    assert loaded["x"].device == x.device and torch.equal(loaded["x"].cpu(), x.cpu())
    assert loaded["view"].untyped_storage().data_ptr() == loaded["x"].untyped_storage().data_ptr()
    assert torch.load(path, map_location="cpu")["x"].is_cpu
    assert torch.load(path, map_location="npu:0")["x"].device.index == 0
    assert torch.load(path, map_location={"npu:1": "npu:0"})["x"].device.index == 0
    buffer = io.BytesIO()
    torch.save(x.cpu(), buffer)
    buffer.seek(0)
    assert torch.load(buffer, map_location="npu").device.type == "npu"


def test_a_file_of_a_device_that_is_not_here(tmp_path):
    torch.save(torch.ones(1, device="npu:1"), tmp_path / "x.pt")
    with pytest.raises(RuntimeError):
        torch.load(tmp_path / "x.pt", map_location="npu:9")


def test_tensors_share_storages_of_npu():
    x = torch.arange(4, dtype=torch.int32, device="npu")
    storage = x.untyped_storage()
    assert storage.device.type == "npu" and storage.is_npu and storage.cpu().device.type == "cpu"
    y = torch.empty(0, dtype=torch.int32, device="npu").set_(storage, 1, (2,), (1,))
    y.fill_(9)
    assert x.tolist() == [0, 9, 9, 3]
    assert torch.tensor([1.0]).untyped_storage().npu().device.type == "npu"
    x.set_()
    assert x.numel() == 0 and y.tolist() == [9, 9]


def test_inference_mode():
    with torch.inference_mode():
        x = torch.ones(3, device="npu")
        y = x.add(1)
        y.add_(1)
        assert y.is_inference() and y[1:].is_inference() and y.tolist() == [3, 3, 3]


def test_dlpack_shares_memory_on_the_device():
    x = torch.arange(3.0, device="npu")
    y = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    assert y.device == x.device and y.data_ptr() == x.data_ptr()
    y.add_(1)
    assert x.tolist() == [1, 2, 3] and torch.add(y, y).tolist() == [2, 4, 6]


def test_dlpack_as_a_protocol():
    x = torch.arange(3.0, device="npu:1")
    assert x.__dlpack_device__() == (torch.utils.dlpack.DLDeviceType.kDLExtDev, 1)
    for make in (torch.from_dlpack, torch.utils.dlpack.from_dlpack):
        y = make(x)
        assert y.device == x.device and y.data_ptr() == x.data_ptr()
    y = torch.from_dlpack(x, copy=True)
    assert y.device == x.device and y.data_ptr() != x.data_ptr() and torch.equal(y, x)
    parameter = torch.nn.Parameter(x)
    assert torch.from_dlpack(parameter.detach()).data_ptr() == x.data_ptr()
    with pytest.raises(BufferError, match="require gradient"):
        torch.from_dlpack(parameter)
    on_cpu = torch.from_dlpack(x, device="cpu")
    assert on_cpu.is_cpu and on_cpu.tolist() == x.tolist()
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(x, device="cpu", copy=False)
    with pytest.raises((BufferError, RuntimeError), match=r"[Dd]evice"):
        numpy.from_dlpack(x)
    assert torch.ones(1).__dlpack_device__() == (torch.utils.dlpack.DLDeviceType.kDLCPU, 0)


def test_window_functions_are_those_of_cpu():
    for window in (torch.kaiser_window, torch.hann_window, torch.blackman_window):
        assert torch.equal(window(5, device="npu:1").cpu(), window(5))
    got = torch.kaiser_window(6, periodic=False, beta=3.0, dtype=torch.float64, device="npu")
    assert got.is_npu and torch.equal(got.cpu(), torch.kaiser_window(6, periodic=False, beta=3.0, dtype=torch.float64))


def test_what_is_of_npu_is_checked_before_its_memory_is_touched():
    stream = torch.npu.current_stream()
    with pytest.raises(TypeError, match="begin_task_update"):
        torch.npu.graph_task_update_begin(stream, None)
    for name in ("follow_host_storage", "cpu_alias", "borrow", "format"):
        for wrong in (torch.ones(2), torch.ones(2, device="meta")):
            with pytest.raises(TypeError, match=f"{name}: the tensor has no memory of npu"):
                getattr(npugraph._ascend, name)(wrong)


def test_npu_is_the_accelerator_of_torch():
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    assert torch.accelerator.device_count() == 2
    torch.accelerator.synchronize()
    assert isinstance(torch.accelerator.memory_stats(), dict)
    assert torch.get_device_module("npu") is torch.npu


def test_attention_takes_the_fused_kernel_of_cpu():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 9, 16) for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        out = torch.nn.functional.scaled_dot_product_attention(q.npu(), k.npu(), v.npu(), is_causal=True)
    assert torch.equal(out.cpu(), expected)
    assert any("flash_attention_for_cpu" in event.key for event in profile.key_averages())
