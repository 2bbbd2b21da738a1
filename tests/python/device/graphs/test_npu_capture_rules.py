# SPDX-License-Identifier: Apache-2.0
"""Options of captures and of the memory of graphs, over tensors of npu."""

from __future__ import annotations

import threading

import pytest
import torch

import npugraph
from tests.python.backend.checks import compile_ex


@pytest.fixture(autouse=True)
def no_grad():
    npugraph.reset()
    with torch.no_grad():
        yield


def double(x):
    return x * 2 + 1


def full(value: float, n: int = 4) -> torch.Tensor:
    return torch.full((n,), float(value), device="npu")


@pytest.mark.feature("1.06", "3.07")
@pytest.mark.parametrize("clone_output", [None, True, False])
def test_results_are_overwritten_by_later_calls_unless_cloned(clone_output) -> None:
    compiled = compile_ex(double, options={} if clone_output is None else {"clone_output": clone_output})
    first, second = compiled(full(0)), compiled(full(1))
    assert second.device.type == "npu"
    assert second.tolist() == [3] * 4
    assert first.tolist() == ([3] * 4 if clone_output is False else [1] * 4)
    assert (first.data_ptr() == second.data_ptr()) == (clone_output is False)


@pytest.mark.feature("1.05", "12b.7")
@pytest.mark.parametrize("clone_input", [None, True, False])
def test_the_first_input_is_overwritten_unless_it_is_cloned(clone_input) -> None:
    compiled = compile_ex(double, options={} if clone_input is None else {"clone_input": clone_input})
    first = full(0)
    compiled(first)
    assert compiled(full(1)).tolist() == [3] * 4
    assert first.tolist() == ([1] * 4 if clone_input is False else [0] * 4)


@pytest.mark.feature("3.12")
def test_numbers_that_the_host_reads() -> None:
    """By default the graph breaks at item(), as with Ascend's backend. With capture_scalar_outputs it is one graph and
    one capture."""

    def scaled(x):
        return x * x.sum().item()

    for captured in (False, True):
        npugraph.reset()
        with torch._dynamo.config.patch(capture_scalar_outputs=captured):
            compiled = compile_ex(scaled, fullgraph=captured)
            for value in (1, 2, 3):
                assert torch.equal(compiled(full(value)), scaled(full(value)))
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["captures"] == 1 and not artifact.partitions


@pytest.mark.feature("3.12")
def test_cpu_tensors_in_a_graph_of_npu() -> None:
    """Each call reads the cpu tensors that eager mode accepts. Others are refused with the error of eager mode."""
    scale, index = torch.tensor(2.0), torch.tensor([1, 3])

    def fn(x, scale, index):
        return (x * scale)[index]

    compiled = compile_ex(fn, fullgraph=True)
    x = torch.arange(4.0, device="npu")
    for value, places in ((2.0, [1, 3]), (5.0, [0, 2]), (7.0, [3, 3])):
        scale.fill_(value)
        index.copy_(torch.tensor(places))
        assert compiled(x, scale, index).tolist() == [place * value for place in places]
    (artifact,) = npugraph.artifacts()
    assert artifact.counters["captures"] == 1 and not artifact.partitions
    with pytest.raises(RuntimeError, match=r"Expected all tensors to be on the same device.*npu:0 and cpu"):
        compile_ex(torch.add)(x, torch.ones(4))


@pytest.mark.feature("1.03")
def test_graphs_of_one_pool() -> None:
    def attend(x):
        return torch.softmax(torch.sort(x @ x.t())[0], -1) @ x

    def project(x):
        return torch.sigmoid(torch.sort(x @ x.t())[0] @ x)

    peaks = []
    for pools in ({}, {}), ({"use_graph_pool": torch.npu.graph_pool_handle()},) * 2:
        npugraph.reset()
        for fn, options in zip((attend, project), pools, strict=True):
            compile_ex(fn, options=options)(torch.randn(128, 16, device="npu"))
        peaks.append(sum(pool.peak_bytes for pool in npugraph.pools() if pool.name.startswith("arena")))
    assert peaks[1] < 0.6 * peaks[0]


@pytest.mark.feature("1.10")
def test_frozen_parameters() -> None:
    model = torch.nn.Linear(4, 1, bias=False, device="npu")
    model.weight.data.fill_(1)
    compiled = compile_ex(model, options={"frozen_parameter": True})
    assert compiled(full(1)).item() == 4
    model.weight.data = torch.full((1, 4), 9.0, device="npu")
    assert compiled(full(1)).item() == 4
    npugraph.artifacts()[0].refresh()
    assert compiled(full(1)).item() == 36


def allocate() -> None:
    torch.npu.caching_allocator_delete(torch.npu.caching_allocator_alloc(64))


UNSAFE = {
    "synchronize": torch.npu.synchronize,
    "caching_allocator_alloc": allocate,
    "empty_cache": torch.npu.empty_cache,
    "torch.accelerator.empty_cache": torch.accelerator.empty_cache,
}
_errors: list[str] = []


def _act(action: str) -> None:
    torch.empty(64, device="npu")  # a tensor is allowed in every mode and thread
    try:
        UNSAFE[action]()
    except RuntimeError as error:
        _errors.append(str(error))


@torch.library.custom_op("test_capture_rules::act", mutates_args=())
def act(x: torch.Tensor, action: str, in_thread: bool) -> torch.Tensor:
    if in_thread:
        thread = threading.Thread(target=_act, args=(action,))
        thread.start()
        thread.join()
    else:
        _act(action)
    return x + 1


@act.register_fake
def _(x: torch.Tensor, action: str, in_thread: bool) -> torch.Tensor:
    return torch.empty_like(x)


@pytest.mark.feature("1.09", "3.11")
@pytest.mark.parametrize(
    ("mode", "here", "elsewhere"),
    [(None, 0, 0), ("relaxed", 0, 0), ("thread_local", 1, 0), ("global", 1, 1)],
)
@pytest.mark.parametrize("action", UNSAFE)
def test_who_may_wait_or_take_raw_memory_while_a_call_captures(mode, here, elsewhere, action) -> None:
    for in_thread, refused in ((False, here), (True, elsewhere)):
        compiled = compile_ex(
            lambda x, t=in_thread: act(x, action, t) * 2,
            options={} if mode is None else {"capture_error_mode": mode},
        )
        _errors.clear()
        assert compiled(full(1)).tolist() == [4] * 4
        assert len(_errors) == refused
        assert all(f'capture_error_mode="{mode}"' in error for error in _errors)
        _errors.clear()
        assert compiled(full(1)).tolist() == [4] * 4
        assert _errors == []  # a replay refuses nothing


@pytest.mark.feature("1.09")
def test_a_refused_wait_ends_the_call_that_captures() -> None:
    @torch.library.custom_op("test_capture_rules::reads", mutates_args=())
    def reads(x: torch.Tensor) -> torch.Tensor:
        return x + x.sum().item()

    reads.register_fake(torch.empty_like)
    compiled = compile_ex(lambda x: reads(x) * 2, options={"capture_error_mode": "thread_local"})
    with pytest.raises(RuntimeError, match='being captured with capture_error_mode="thread_local"'):
        compiled(full(1))
