# SPDX-License-Identifier: Apache-2.0
"""``torch.npu``: settings that are kept, limits, versions, marks, memory of other allocators."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
import torch_npu
from torch.profiler import ProfilerActivity, profile

npu = torch.npu


def test_settings_are_kept():
    assert npu.is_jit_compile_false()
    npu.set_compile_mode(jit_compile=True)
    assert not npu.is_jit_compile_false()
    npu.set_compile_mode()
    for set_it, get_it, values in (
        (npu.set_mm_bmm_format_nd, npu.get_mm_bmm_format_nd, (False, True)),
        (npu.set_task_queue_enable, npu.get_task_queue_enable, (2, 1)),
        (npu.use_compatible_impl, npu.are_compatible_impl_enabled, (True, False)),
        (npu.set_deterministic_level, npu.get_deterministic_level, (2, 1, 0)),
        (npu.set_sync_debug_mode, npu.get_sync_debug_mode, (1, 2, 0)),
    ):
        for value in values:
            set_it(value)
            assert get_it() == value
    npu.set_sync_debug_mode("warn")
    assert npu.get_sync_debug_mode() == 1
    npu.set_sync_debug_mode("default")


def test_settings_without_effect_are_accepted():
    npu.set_option({"ACL_PRECISION_MODE": "must_keep_origin_dtype"})
    for call in (npu.set_aoe, npu.set_dump):
        assert call("somewhere") is None
    for call in (npu.init_dump, npu.finalize_dump, npu.empty_virt_addr_cache, npu.ipc_collect, npu.npurt):
        assert call() is None
    assert npu.set_op_timeout_ms(1000) is None
    assert npu.stress_detect() == npu.stop_device(0) == npu.restart_device(0) == npu.check_uce_in_memory(1) == 0
    with pytest.warns(UserWarning, match="npu does not use a blas handle"):
        assert npu.current_blas_handle() is None


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: npu.set_option(["x"]), TypeError, "set_option takes a dictionary from names to values"),
        (lambda: npu.set_deterministic_level(3), ValueError, "level is 3, allowed are 0, 1 and 2"),
        (lambda: npu.use_compatible_impl(1), TypeError, "use_compatible_impl takes a bool, got 1"),
        (lambda: npu.set_task_queue_enable(7), ValueError, "mode is 7, allowed are 0, 1 and 2"),
        (lambda: npu.set_op_timeout_ms(-1), ValueError, "timeout is -1, and must be at least 0"),
        (lambda: npu.set_sync_debug_mode("loud"), ValueError, "debug_mode is 'loud', allowed are default, warn, error"),
        (lambda: npu.stress_detect("x"), ValueError, "detect_type is 'x', allowed are aic and p2p"),
        (lambda: npu.utils.get_cann_version("X"), ValueError, "module is 'X', allowed are CANN, RUNTIME"),
        (lambda: npu.utils._is_gte_cann_version("new"), ValueError, "version is 'new', and must look like 8"),
        (lambda: setattr(npu.matmul, "allow_hf32", 1), TypeError, "torch.npu.matmul.allow_hf32 takes a bool, got 1"),
        (lambda: npu.caching_allocator_alloc(-1), ValueError, "size is -1, and must be at least 0"),
        (lambda: npu.caching_allocator_delete(64), ValueError, "0x40 is no address that caching_allocator_alloc"),
        (lambda: npu.NPUPluggableAllocator("/no.so", "a", "f"), FileNotFoundError, "there is no file '/no.so'"),
        (lambda: npu.change_current_allocator(1), TypeError, "takes an NPUPluggableAllocator, got int"),
        (lambda: npu.Event(interprocess=True, enable_timing=True), ValueError, "cannot have enable_timing=True"),
        (lambda: npu.Event().ipc_handle(), RuntimeError, "make the event with interprocess=True"),
        (lambda: npu.Event.from_ipc_handle(0, b"x"), ValueError, "handle is not one that ipc_handle returned"),
        (lambda: torch_npu.erase_stream(1, None), TypeError, "tensor is int, and must be a tensor of npu"),
        (lambda: npu.mstx.mark(3), TypeError, "mstx: message is 3, and must be a string"),
    ],
)
def test_what_is_not_allowed_says_so(call, error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        call()


def test_deterministic_levels_are_those_of_torch():
    npu.set_deterministic_level(1)
    assert torch.are_deterministic_algorithms_enabled()
    npu.set_deterministic_level(0)
    assert not torch.are_deterministic_algorithms_enabled()


def test_determinism_of_a_part_of_a_backward_pass():
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(torch.are_deterministic_algorithms_enabled())
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            seen.append(torch.are_deterministic_algorithms_enabled())
            return grad

    x = torch.ones(2, device="npu", requires_grad=True)
    y = Look.apply(npu.enable_deterministic_with_backward(Look.apply(x)))
    Look.apply(npu.disable_deterministic_with_backward(y)).sum().backward()
    assert seen == [False, True, False, False, True, False] and x.grad.tolist() == [1, 1]


def test_switches_of_products_and_convolutions():
    assert not npu.matmul.allow_hf32 and npu.conv.allow_hf32
    npu.matmul.allow_hf32 = True
    npu.matmul.cube_math_type = 3
    assert npu.matmul.allow_hf32 and npu.matmul.cube_math_type is npu.CubeMathType.USE_HF32
    npu.matmul.allow_hf32, npu.matmul.cube_math_type = False, npu.CubeMathType.KEEP_DTYPE
    from torch_npu.npu import aclnn

    assert aclnn.version() == "9.9.0"
    with aclnn.flags(allow_hf32=False):
        assert not aclnn.allow_hf32 and not npu.conv.allow_hf32
    aclnn.allow_hf32 = True
    assert npu.conv.allow_hf32


@pytest.mark.feature("3.16")
def test_limits_of_cores():
    stream, other = npu.Stream(), npu.Stream()
    everything = {"cube_core_num": 24, "vector_core_num": 48}
    assert npu.get_device_limit(0) == npu.get_stream_limit(stream) == everything
    npu.set_stream_limit(stream, 8, 16)
    assert npu.get_stream_limit(stream) == {"cube_core_num": 8, "vector_core_num": 16}
    npu.set_stream_limit(stream, vector_num=4)
    assert npu.get_stream_limit(stream) == {"cube_core_num": 8, "vector_core_num": 4}
    assert npu.get_stream_limit(other) == everything
    npu.reset_stream_limit(stream)
    assert npu.get_stream_limit(stream) == everything
    with pytest.raises(ValueError, match="cube"):
        npu.set_stream_limit(stream, 25, 48)
    with pytest.raises(ValueError, match="vector"):
        npu.set_stream_limit(stream, 1, 0)
    npu.set_device_limit(1, 12, 24)
    assert npu.get_stream_limit(npu.Stream("npu:1")) == {"cube_core_num": 12, "vector_core_num": 24}
    npu.set_device_limit(1, 24, 48)


def test_versions_of_cann_and_chip_are_known():
    assert npu.utils.get_cann_version() == npu.utils.get_cann_version("DRIVER") == "9.9.0"
    assert npu.utils._is_gte_cann_version("9.1.0") and npu.utils._is_gte_cann_version("8.2.RC1", "HCCL")
    assert npu.utils._is_gte_cann_version("9.9.0.alpha001") and not npu.utils._is_gte_cann_version("10.0")
    assert npu.get_soc_version() == torch_npu._C._npu_get_soc_version() == 220

    @torch.compile(backend="eager", fullgraph=True)
    def model(x):
        return x + 1 if npu.get_soc_version() < 250 else x - 1

    assert model(torch.ones(1, device="npu")).item() == 2


def test_infinite_values_are_found_as_overflow():
    assert npu.utils.is_support_inf_nan() and not npu.utils.is_force_overflow_check()
    assert not npu.get_npu_overflow_flag() and npu.clear_npu_overflow_flag() is None
    assert npu.utils.npu_check_overflow(torch.tensor([1.0, float("inf")], device="npu"))
    assert not npu.utils.npu_check_overflow(torch.ones(2, device="npu")) and npu.utils.npu_check_overflow(float("nan"))


def test_scaled_gradients():
    x = torch.ones(2, device="npu", requires_grad=True)
    for dynamic, scales in ((True, (2.0, 4.0)), (False, (2.0, 2.0))):
        scaler = npu.amp.GradScaler(init_scale=2.0, growth_interval=1, dynamic=dynamic)
        optimizer = torch.optim.SGD([x], 0.0)
        scaler.scale(x.sum()).backward()
        assert scaler.get_scale() == scales[0] and x.grad.tolist() == [2, 2]
        scaler.step(optimizer)
        assert x.grad.tolist() == [1, 1]
        scaler.update()
        assert scaler.get_scale() == scales[1]
        x.grad = None
    assert issubclass(npu.amp._ShardedGradScaler, torch.amp.GradScaler)

    class Double(torch.autograd.Function):
        @staticmethod
        @npu.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @npu.amp.custom_bwd
        def backward(ctx, grad):
            return grad * 2

    with npu.amp.autocast():
        assert Double.apply(x.half()).dtype == torch.float32


def test_storages_and_tensors_by_their_old_names():
    x = npu.FloatTensor([1, 2])
    assert x.device.type == "npu" and isinstance(x, npu.FloatTensor) and not isinstance(x, npu.HalfTensor)
    assert x.type() == "torch.npu.FloatTensor" and x.type(npu.HalfTensor).dtype == torch.float16
    assert torch.ones(1).type(npu.IntTensor).device.type == "npu"
    assert not isinstance(x.cpu(), npu.FloatTensor) and npu.LongTensor(2, 3).shape == (2, 3)
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        storage = npu.HalfStorage(4)
    assert storage.device.type == "npu" and npu.HalfStorage.dtype == torch.float16 and len(storage) == 4


def test_memory_by_address():
    gc.collect()
    before = npu.memory_allocated(1)
    address = npu.caching_allocator_alloc(256, device="npu:1")
    assert npu.memory_allocated(1) - before == 256 and address
    npu.caching_allocator_delete(address)
    assert npu.memory_allocated(1) == before
    assert npu.get_allocator_backend() == "native"


def test_pools_count_users_and_keep_their_allocator():
    pool, other = npu.MemPool(), npu.MemPool()
    assert pool.id != other.id and pool.use_count() == 1
    with npu.use_mem_pool(pool):
        assert torch.ones(3, device="npu").sum() == 3 and pool.use_count() == 2
    assert pool.use_count() == 1 and pool.snapshot() == []
    allocator = npu.NPUPluggableAllocator(__file__, "alloc", "free")
    assert npu.change_current_allocator(allocator) is None
    assert npu.MemPool(allocator.allocator()).allocator is allocator


def test_statistics_of_pinned_memory():
    x = torch.ones(100).pin_memory()
    npu.reset_peak_host_memory_stats()
    stats = npu.host_memory_stats_as_nested_dict()["allocated_bytes"]
    assert stats["peak"] == stats["current"] >= 400
    npu.reset_accumulated_host_memory_stats()
    assert npu.host_memory_stats()["allocated_bytes.allocated"] == 0
    del x


def test_events_between_processes():
    event = npu.Event(interprocess=True)
    event.record()
    other = npu.Event.from_ipc_handle("npu:0", event.ipc_handle())
    other.wait()
    assert other.query() and other.synchronize() is None


def test_functions_in_the_order_of_a_stream():
    stream, seen = npu.Stream(), []
    with pytest.raises(RuntimeError, match="_launch_host_func: call _subscribe_report"):
        npu._launch_host_func(stream, seen.append, 1)
    npu._subscribe_report(stream)
    npu._launch_host_func(stream, seen.append, 2)
    npu._unsubscribe_report(stream)
    assert seen == [2]
    x = torch.ones(2, device="npu")
    x.record_stream(stream)
    torch_npu.erase_stream(x, stream)


def test_marks_are_ranges_of_the_profiler():
    @npu.mstx.mstx_range("decorated")
    def work():
        return torch.ones(2, device="npu") + 1

    from torch_npu.npu.mstx import annotate

    with profile(activities=[ProfilerActivity.CPU]) as prof:
        work()
        npu.mstx.mark("moment")
        assert npu.mstx.range_push("outer") == 0 and npu.mstx.range_push("inner") == 1
        assert npu.mstx.range_pop() == 1 and npu.mstx.range_pop() == 0 and npu.mstx.range_pop() == -1
        number = npu.mstx.range_start("pair", domain="mine")
        npu.mstx.range_end(number, domain="mine")
        npu.mstx.range_end(number)
        with annotate("block"):
            pass
        annotate()(work)()
    names = {event.key for event in prof.key_averages()}
    assert {"decorated", "moment", "outer", "inner", "pair", "block", "work"} <= names


def test_memory_through_torch_accelerator():
    gc.collect()
    before = torch.accelerator.memory_allocated()
    x = torch.ones(1000, device="npu")
    assert torch.accelerator.memory_allocated() - before == 4000
    assert torch.accelerator.max_memory_allocated() >= before + 4000
    assert torch.accelerator.memory_reserved() == npu.memory_reserved()
    assert torch.accelerator.get_memory_info() == npu.mem_get_info()
    torch.accelerator.empty_cache()
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.reset_accumulated_memory_stats()
    assert x.sum() == 1000


def test_sums_of_rows_tell_a_wrong_product():
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.bfloat16):
        a, b = torch.randn(64, 96, device="npu", dtype=dtype), torch.randn(96, 80, device="npu", dtype=dtype)
        c = a @ b
        assert not torch_npu.matmul_checksum(a, b, c)
        c[3, 5] += 64
        assert torch_npu.matmul_checksum(a, b, c)


def test_numbers_of_numpy_are_devices_too():
    with npu.device(np.int64(1)):
        assert npu.current_device() == 1


def test_scopes_set_and_give_back():
    scope = npu.npugraph_ex.scope
    stream, other = npu.current_stream(), npu.Stream()
    everything = npu.get_stream_limit(stream)
    npu.set_stream_limit(other, 2, 4)
    with scope.limit_core_num(8, 16), scope.limit_core_num(1, 1, stream=other):
        assert npu.get_stream_limit(stream) == {"cube_core_num": 8, "vector_core_num": 16}
        with pytest.raises(KeyError), scope.limit_core_num(3, 3):
            raise KeyError
        assert npu.get_stream_limit(stream) == {"cube_core_num": 8, "vector_core_num": 16}
        assert npu.get_stream_limit(other) == {"cube_core_num": 1, "vector_core_num": 1}
    assert npu.get_stream_limit(stream) == everything
    assert npu.get_stream_limit(other) == {"cube_core_num": 2, "vector_core_num": 4}
    npu.set_device_limit(0, 12, 24)  # a stream without limits of its own follows the device again
    assert npu.get_stream_limit(stream) == {"cube_core_num": 12, "vector_core_num": 24}
    npu.set_device_limit(0, *everything.values())
    with pytest.raises(ValueError, match="op_aicore_num is 25; it has to be from 1 to 24"), scope.limit_core_num(25, 1):
        pass
    assert npu.get_stream_limit(stream) == everything
    with scope.deterministic(2):
        assert npu.get_deterministic_level() == 2 and torch.are_deterministic_algorithms_enabled()
    assert npu.get_deterministic_level() == 0 and not torch.are_deterministic_algorithms_enabled()
    with pytest.raises(ValueError, match="level is 3"), scope.deterministic(3):
        pass


def test_a_scope_of_determinism_breaks_the_graph_of_a_compiled_function():
    def step(x):
        with npu.npugraph_ex.scope.deterministic(2):
            y = x * 2
        return y + 1

    x = torch.randn(4, device="npu")
    assert torch.equal(torch.compile(step, backend="npugraph_ex")(x), step(x))
    assert npu.get_deterministic_level() == 0
