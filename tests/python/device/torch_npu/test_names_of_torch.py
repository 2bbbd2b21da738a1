# SPDX-License-Identifier: Apache-2.0
"""Clients replace functions of torch by those of torch_npu. torch_npu's own calls of torch are not affected by that."""

from __future__ import annotations

from tests.python.forks import run_python

CLIENT = """
import io

import torch
import torch_npu
import torch_npu.utils.serialization
from torch_npu.contrib.function import roll

npu, accelerator = torch.npu, torch.accelerator
names = [name for name in dir(accelerator) if not name.startswith("_") and callable(getattr(npu, name, None))]
assert {"empty_cache", "memory_stats", "synchronize", "current_stream", "set_stream"} <= set(names)
for name in names:
    setattr(accelerator, name, getattr(npu, name))
    if hasattr(accelerator.memory, name):
        setattr(accelerator.memory, name, getattr(npu, name))
accelerator.get_memory_info = npu.mem_get_info
torch.load, torch.roll = torch_npu.utils.serialization.load, roll
torch.distributed.is_available = torch_npu.distributed.is_available

x = torch.arange(4.0, device="npu")
npu.empty_cache()
free, total = accelerator.get_memory_info()
assert 0 < free <= total
assert npu.memory_stats()["allocated_bytes.all.current"] == npu.memory_allocated() == accelerator.memory_allocated() > 0
npu.reset_peak_memory_stats()
npu.reset_accumulated_memory_stats()
stream = npu.Stream()
npu.set_stream(stream)
assert npu.current_stream() == stream
event = npu.Event()
event.record()
event.wait()
npu.synchronize()
npu.set_stream(npu.default_stream())
with npu.stream(stream):
    assert npu.current_stream() == stream
file = io.BytesIO()
torch.save(x, file)
file.seek(0)
assert torch.equal(torch_npu.utils.serialization.load(file).cpu(), x.cpu())
assert roll(x, 1, 0).tolist() == [3, 0, 1, 2]
assert torch_npu.distributed.is_available()

graph = npu.NPUGraph()
with npu.graph(graph):
    y = x + 1
graph.replay()
assert y.tolist() == [1, 2, 3, 4]
compiled = torch.compile(lambda x: x * 2 + npu.current_stream().stream_id, backend="npugraph_ex")
assert compiled(x).tolist() == [0, 2, 4, 6]
"""


def test_names_that_lead_here() -> None:
    run_python("-c", CLIENT, check=True)
