# SPDX-License-Identifier: Apache-2.0
"""Functions of ``torch.npu`` that scripts call in passing: properties, streams, seeds, switches of autocast."""

from __future__ import annotations

import gc
import os

import pytest
import torch
import torch_npu

from tests.python.forks import run_python

npu = torch.npu


@pytest.mark.parametrize("device", [1, "npu:1", torch.device("npu:1"), torch.device("npu", 1)])
def test_ways_to_name_a_device(device):
    npu.set_device(device)
    try:
        assert npu.current_device() == 1 and torch.ones(1, device="npu").device.index == 1
        assert npu.get_device_properties(device) == npu.get_device_properties()
    finally:
        npu.set_device(0)
    assert npu.get_device_name(device) == npu.get_device_properties(device).name


def test_what_is_no_device_of_npu():
    with pytest.raises(ValueError, match="expected a device of npu, got 'cpu'"):
        npu.set_device("cpu")
    with pytest.raises(RuntimeError, match="there is no device npu:5"):
        npu.get_device_name(5)


def test_properties_have_the_names_of_other_devices():
    properties = npu.get_device_properties()
    numbers = ("major", "minor", "is_integrated", "is_multi_gpu_board", "multi_processor_count", "warp_size")
    more = ("max_threads_per_multi_processor", "regs_per_multiprocessor", "L2_cache_size")
    assert all(isinstance(getattr(properties, name), int) for name in (*numbers, *more))
    assert properties.gcnArchName == "" and properties.uuid != npu.get_device_properties(1).uuid


def test_capability_is_what_the_environment_says(monkeypatch):
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "8.0")
    assert npu.get_device_capability() == npu.get_device_capability("npu:1") == (8, 0)
    monkeypatch.setenv("TORCH_NPU_DEVICE_CAPABILITY", "eight")
    with pytest.raises(ValueError, match=r"TORCH_NPU_DEVICE_CAPABILITY='eight': expected major\.minor"):
        npu.get_device_capability()


def test_functions_without_meaning_here_have_fixed_answers():
    assert npu.is_initialized() and npu.init() is None and npu.is_bf16_supported() and npu.is_bf16_supported(True)
    assert npu.can_device_access_peer(0, 1) and npu.utilization() == 0
    assert npu._lazy_init() is None and not npu._is_in_bad_fork()
    called = []
    npu._lazy_call(lambda: called.append(1))
    assert called == [1]
    from torch_npu.npu.amp import common

    assert not common.amp_definitely_not_available()


def test_free_memory_never_grows_by_allocating():
    gc.collect()
    total, before = npu.mem_get_info()[1], npu.memory_allocated()
    x = torch.ones(1 << 20, device="npu")
    assert npu.mem_get_info() == (total - before - (4 << 20), total)
    del x


def test_counters_by_their_old_names():
    x = torch.ones(1000, device="npu")
    assert npu.memory_cached() == npu.memory_reserved() and npu.max_memory_cached() == npu.max_memory_reserved()
    for reset in (npu.reset_max_memory_allocated, npu.reset_max_memory_cached):
        y = torch.ones(1 << 20, device="npu")
        del y
        reset()
        assert npu.max_memory_allocated() == npu.memory_allocated() >= 4000
        assert npu.max_memory_reserved() == npu.memory_reserved()
    assert npu.host_empty_cache() is None
    del x


def test_the_share_of_memory_that_may_be_used():
    npu.set_per_process_memory_fraction(0.5, "npu:1")
    assert npu.get_per_process_memory_fraction(1) == 0.5 and npu.get_per_process_memory_fraction() == 1
    npu.set_per_process_memory_fraction(1, 1)
    with pytest.raises(ValueError, match="fraction is 2, and must be from 0 to 1"):
        npu.set_per_process_memory_fraction(2)


def test_seeds_that_nobody_can_foretell():
    npu.seed_all()
    assert len({generator.initial_seed() for generator in npu.default_generators}) == 1
    first = npu.initial_seed()
    npu.seed()
    assert npu.initial_seed() != first and npu.default_generators[1].initial_seed() == first


def test_the_stream_that_is_set():
    default, stream, other = npu.current_stream(), npu.Stream(), npu.Stream("npu:1", priority=-1)
    npu.set_stream(stream)
    try:
        assert npu.current_stream() == stream
        npu.set_stream(None)
        assert npu.current_stream() == stream
        npu.set_stream(other)
        assert npu.current_device() == 1 and npu.current_stream(0) == stream
    finally:
        npu.set_stream(npu.default_stream("npu:1"))
        npu.set_stream(default)
    assert npu.current_device() == 0 and npu.current_stream() == default
    with npu.StreamContext(stream):
        assert npu.current_stream() == stream


def test_streams_of_other_classes():
    stream = npu.SyncLaunchStream()
    assert isinstance(stream, npu.Stream) and stream.query() and stream.synchronize() is None
    assert stream.set_data_preprocess_stream(True) is None
    event = stream.record_event()
    stream.wait_event(event)
    stream.wait_stream(npu.default_stream())
    assert event.query() and stream.npu_stream != npu.Stream().npu_stream
    assert npu.ExternalStream(stream.npu_stream, "npu:0") == stream
    with pytest.raises(ValueError, match="is of npu:0, not of npu:1"):
        npu.ExternalStream(stream.npu_stream, 1)
    with npu.stream(stream):
        assert (torch.ones(2, device="npu") + 1).tolist() == [2, 2]


def test_switches_of_autocast():
    assert npu.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]
    before = npu.get_autocast_dtype()
    npu.set_autocast_dtype(torch.bfloat16)
    npu.set_autocast_enabled(True)
    try:
        assert npu.is_autocast_enabled() and torch.is_autocast_enabled("npu")
        x = torch.ones(2, 2, device="npu")
        assert (x @ x).dtype == npu.get_autocast_dtype() == torch.bfloat16
    finally:
        npu.set_autocast_enabled(False)
        npu.set_autocast_dtype(before)
    assert not npu.is_autocast_enabled()
    with pytest.warns(UserWarning, match="autocast"), torch.autocast("npu", dtype=torch.float64):
        assert (x @ x).dtype == torch.float32


def test_gradients_are_unscaled_once():
    x = torch.ones(2, device="npu", requires_grad=True)
    scaler, optimizer = npu.amp.GradScaler(init_scale=8.0), torch.optim.SGD([x], 1.0)
    scaler.scale(x.sum()).backward()
    scaler.unscale_(optimizer)
    assert x.grad.tolist() == [1, 1]
    scaler.step(optimizer)
    assert x.tolist() == [0, 0]
    state = scaler.state_dict()
    other = npu.amp.GradScaler()
    other.load_state_dict(state)
    assert other.get_scale() == 8
    (x * float("inf")).sum().backward()
    scaler.update()
    scaler.step(optimizer)
    assert x.tolist() == [0, 0]  # the step was left out
    scaler.update(4.0)
    assert scaler.get_scale() == 4


@pytest.mark.parametrize(
    "name", ["Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short", "BFloat16"]
)
def test_types_of_tensors_by_their_old_names(name: str):
    kind = getattr(npu, f"{name}Tensor")
    x = kind([1, 0])
    assert x.is_npu and isinstance(x, kind) and x.dtype == kind.dtype == getattr(npu, f"{name}Storage").dtype
    assert x.type() == f"torch.npu.{name}Tensor" and x.tolist() == [1, 0] and kind(2, 3).shape == (2, 3)
    assert not isinstance(x.cpu(), kind) and torch.ones(1).type(kind).is_npu


def test_names_of_traces():
    def name() -> str:
        return "mine"

    with torch_npu.profiler.profile(custom_trace_id_callback=name) as prof:
        torch.ones(2, device="npu") + 1
    assert prof.get_trace_id() == "mine"
    prof.set_custom_trace_id_callback(lambda: "other")
    prof.start()
    prof.stop()
    assert prof.get_trace_id() == "other"


def test_actions_of_schedules():
    action = torch_npu.profiler.ProfilerAction
    schedule = torch_npu.profiler.schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    wanted = [action.NONE, action.NONE, action.WARMUP, action.RECORD, action.RECORD_AND_SAVE, action.NONE]
    assert [schedule(step) for step in range(6)] == wanted


def test_a_file_of_tests(tmp_path):
    code = """
import torch
from torch_npu.testing.common_utils import get_npu_device, set_npu_device
from torch_npu.testing.testcase import TestCase, run_tests

class TestOne(TestCase):
    def test_passes(self):
        set_npu_device()
        self.assertEqual(torch.npu.current_device(), 1)
        self.assertTensorsSlowEqual(torch.ones(2, device=get_npu_device()), torch.ones(2))
        sparse = self.safeCoalesce(torch.eye(2).to_sparse())
        self.assertTrue(sparse.is_coalesced())

    def test_fails(self):
        self.assertRtolEqual(torch.ones(2), torch.zeros(2))

run_tests()
"""
    (tmp_path / "file.py").write_text(code)
    environment = {**os.environ, "SET_NPU_DEVICE": "npu:1"}
    done = run_python(tmp_path / "file.py", env=environment)
    assert done.returncode == 1 and "Ran 2 tests" in done.stderr and "FAILED (failures=1)" in done.stderr, done.stderr
