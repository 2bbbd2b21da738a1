# SPDX-License-Identifier: Apache-2.0
"""A device has the memory that the host has left."""

from __future__ import annotations

import os

import pytest

from tests.python.forks import run_python

BEYOND_THE_HOST = """
import torch
import torch_npu

rows = dict(line.split(":") for line in open("/proc/meminfo"))
host = int(rows["MemTotal"].split()[0]) << 10
free, total = torch.npu.mem_get_info()
assert total < host and free <= total, (free, total, host)
assert total == torch.npu.mem_get_info("npu:1")[1] == torch.npu.get_device_properties().total_memory
one = torch.ones(1, device="npu")
result = torch.compile(lambda one: one.expand(host // 4) + 1, backend="npugraph_ex", fullgraph=True)
between = torch.compile(lambda one: one.expand(host // 4).sort()[0] + 1, backend="npugraph_ex", fullgraph=True)
refused = (
    lambda: torch.empty(total + 1, dtype=torch.uint8, device="npu"),
    lambda: one.expand(host // 4) + one,  # memory that a kernel asks for
    lambda: torch.cumsum(one.expand(host // 4), 0),
    lambda: result(one),
    lambda: between(one),
)
for number, call in enumerate(refused):
    try:
        call()
    except torch.OutOfMemoryError as error:
        assert str(error).startswith("NPU out of memory. Tried to allocate "), error
        assert " GiB total capacity; " in str(error) and " already allocated" in str(error), error
    else:
        raise AssertionError(f"call {number} raised nothing")
assert torch.npu.memory_stats()["num_ooms"] == len(refused)
assert (one + 1).item() == 2

share = torch.npu.mem_get_info()[0] * 6 // 10
kept = torch.empty(share, dtype=torch.uint8, device="npu")
assert torch.npu.mem_get_info("npu:1")[0] == torch.npu.mem_get_info()[0] <= total - share
try:
    torch.empty(share, dtype=torch.uint8, device="npu:1")
except torch.OutOfMemoryError as error:
    assert "(NPU 1; " in str(error), error
else:
    raise AssertionError("two devices have more than their host")
"""

AS_THE_VARIABLE_SAYS = """
import torch
import torch_npu

assert torch.npu.mem_get_info() == (3 << 30, 3 << 30)
try:
    torch.empty((3 << 30) + 1, dtype=torch.uint8, device="npu")
except torch.OutOfMemoryError as error:
    assert "3.00 GiB total capacity" in str(error), error
else:
    raise AssertionError("no error")
"""


@pytest.mark.parametrize(("code", "memory"), [(BEYOND_THE_HOST, None), (AS_THE_VARIABLE_SAYS, "3GiB")])
def test_memory_of_a_device(code: str, memory: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NPUGRAPH_DEVICE_MEMORY"}
    if memory:
        environment["NPUGRAPH_DEVICE_MEMORY"] = memory
    run_python("-c", code, check=True, env=environment)
