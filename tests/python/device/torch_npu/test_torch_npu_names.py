# SPDX-License-Identifier: Apache-2.0
"""Public names of torch_npu: the modules that an import loads, and that all names in its lists exist."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import subprocess
import sys

import pytest
import torch
import torch_npu


def _modules() -> list[str]:
    found = pkgutil.walk_packages(torch_npu.__path__, "torch_npu.")
    # transfer_to_npu changes torch for good. test_transfer_to_npu.py tests it in other processes.
    return ["torch_npu", *(one.name for one in found if not one.name.endswith("transfer_to_npu"))]


def _imported(autoload: bool) -> set[str]:
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": str(int(autoload))}
    code = "import sys, torch; print(sorted(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    return set(ast.literal_eval(found.stdout))


def test_importing_torch_imports_nothing_else_because_of_npu():
    ours = ("npugraph", "torch_npu", "torch.npu")
    added = _imported(autoload=True) - _imported(autoload=False)
    assert "torch_npu" in added and not [name for name in added if not name.startswith(ours)]
    later = [f"torch_npu.{name}" for name in torch_npu._SUBMODULES if name != "multiprocessing"]
    assert not [name for name in added if name.startswith(tuple(later))]
    assert not [name for name in added if name.startswith("npugraph.backend")]


@pytest.mark.parametrize("name", _modules())
def test_what_a_module_lists_is_there(name: str):
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", ())
    assert not [one for one in listed if not hasattr(module, one)]
    assert len(set(listed)) == len(listed)
    for one in listed:
        found = getattr(module, one)
        if callable(found) and found.__module__.startswith(("torch_npu", "npugraph")):
            assert found.__doc__, f"{name}.{one} has no documentation"


def test_submodules_come_when_they_are_asked_for():
    code = """
import torch, torch_npu
torch_npu.profiler.ProfilerLevel.Level1
torch_npu.utils.get_cann_version()
torch_npu.testing
torch_npu._C._npu_get_soc_version()
torch_npu._inductor
torch_npu.op_plugin.atb
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="module 'torch_npu' has no attribute 'nonsense'"):
        torch_npu.nonsense  # noqa: B018
    assert "profiler" in dir(torch_npu) and "npu_rms_norm" in dir(torch_npu)


def test_operators_of_atb_are_a_module():
    from torch_npu.atb import npu_ring_mla

    assert npu_ring_mla is torch_npu.npu_ring_mla is torch_npu.atb.npu_ring_mla
    assert torch_npu.atb.npu_paged_cache_load is torch.ops.atb.npu_paged_cache_load
    assert "_npu_paged_attention" in dir(torch_npu.atb)
    for name in ("npu_rms_norm", "nonsense"):
        with pytest.raises(AttributeError, match=f"module 'torch_npu.atb' has no attribute '{name}'"):
            getattr(torch_npu.atb, name)


def test_modules_below_torch_npu_have_two_names_and_are_one():
    code = """
import importlib, sys
import torch
before = torch.npu.mstx
from torch.npu.amp import GradScaler
import torch.npu.utils, torch.npu.mstx, torch.npu.amp.grad_scaler, torch.npu.amp.sharded_grad_scaler, torch.npu.aclnn
import torch_npu
assert GradScaler is torch_npu.npu.amp.GradScaler and torch.npu.mstx is before
for name in ("utils", "mstx", "streams", "amp", "amp.grad_scaler", "amp.sharded_grad_scaler", "aclnn"):
    one = importlib.import_module(f"torch.npu.{name}")
    assert one is importlib.import_module(f"torch_npu.npu.{name}"), name
    assert name == "aclnn" or one.__spec__.name == f"torch_npu.npu.{name}", name  # which replaces itself
try:
    import torch.npu.nonsense
except ModuleNotFoundError as error:
    assert "torch_npu.npu.nonsense" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_packages_of_torch_compile_have_several_names_and_are_one():
    code = """
import importlib, sys
import torch, torch_npu
assert "npugraph_ex" not in sys.modules and "torchair" not in sys.modules
names = {
    "npugraph_ex": ("torch.npu.npugraph_ex", "torch_npu.npu.npugraph_ex", "torch_npu.dynamo.npugraph_ex"),
    "torchair": ("torch_npu.dynamo.torchair",),
}
assert torch.npu.npugraph_ex.compile_fx is torch_npu.dynamo.npugraph_ex.compile_fx
assert torch_npu.dynamo.torchair.register_replacement is torch.npu.npugraph_ex.register_replacement
for package, aliases in names.items():
    real = importlib.import_module(package)
    utils = importlib.import_module(f"{package}.core.utils")
    for alias in aliases:
        assert importlib.import_module(alias) is real and real.__spec__.name == package, alias
        assert importlib.import_module(f"{alias}.core.utils") is utils, alias
import torch.npu.npugraph_ex.inference as inference
assert inference is torch_npu.dynamo.npugraph_ex.inference
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    for module in (torch.npu, torch_npu.dynamo):
        with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
            module.nonsense  # noqa: B018
    with pytest.raises(ModuleNotFoundError, match=r"npugraph_ex\.nonsense"):
        importlib.import_module("torch.npu.npugraph_ex.nonsense")


def test_lines_that_import_torchair_run_with_both_names():
    from tests.python.ge.import_lines import OF_TORCH_NPU, import_lines

    lines = [*import_lines(), *OF_TORCH_NPU]
    longer = [re.sub("^(import|from) torchair", r"\1 torch_npu.dynamo.torchair", line) for line in lines]
    code = "\n".join(["import torch_npu", *lines, *longer])
    subprocess.run([sys.executable, "-c", code], check=True)


def test_operators_of_the_namespace_npu_inference_are_those_of_npu():
    import torchair._contrib.custom_torch_ops  # noqa: F401

    x, cos, sin = (torch.randn(2, n, 3, 64).half().npu() for n in (4, 1, 1))
    expected = torch_npu.npu_interleave_rope(x, cos, sin)
    assert torch.equal(torch.ops.npu_inference.npu_interleave_rope(x, cos, sin), expected)
    for backend in ("npu", "npugraph_ex"):
        fast = torch.compile(lambda *args: torch.ops.npu_inference.npu_interleave_rope(*args), backend=backend)
        assert torch.equal(fast(x, cos, sin), expected)


def test_the_command_that_starts_processes():
    from importlib.metadata import entry_points

    (command,) = entry_points(group="console_scripts", name="torch_npu_run")
    assert command.load() is importlib.import_module("torch.distributed.run").main


def test_names_that_scripts_import():
    from acl.rt import memcpy
    from torch_npu.op_plugin.atb._atb_ops import _register_atb_extensions
    from torch_npu.profiler import dynamic_profile

    assert _register_atb_extensions() is None
    assert callable(memcpy) and callable(dynamic_profile.init)
    assert torch_npu._C._aclnn_reselect_static_kernel() is None
    assert issubclass(torch.npu.Stream, torch_npu._C._NPUStreamBase)
    assert issubclass(torch.npu.Event, torch_npu._C._NPUEventBase)
    assert (torch_npu.int4, torch_npu.hifloat8, torch_npu.float4_e2m1fn_x2) == (285, 290, 296)
    assert torch_npu.Format.UNDEFINED == -1 and torch_npu.Format(30).name == "NCDHW"


def test_tensors_over_memory_that_is_given() -> None:
    x = torch.arange(6.0, device="npu:1")
    storage = torch_npu._C._construct_storage_from_data_pointer(x.data_ptr(), x.device, x.untyped_storage().nbytes())
    metadata = {"size": (2, 2), "stride": (1, 2), "storage_offset": 1, "dtype": x.dtype, "device": x.device}
    y = torch_npu._C._construct_NPU_Tensor_From_Storage_And_Metadata(metadata, storage)
    assert storage.device == y.device == x.device and storage.nbytes() == 24
    assert y.tolist() == [[1, 3], [2, 4]] and y.stride() == (1, 2)
    y.fill_(7)
    assert x.tolist() == [0, 7, 7, 7, 7, 5]
    assert torch_npu._C._construct_storage_from_data_pointer(0, "npu:1", 0).nbytes() == 0
    with pytest.raises(ValueError, match="expected a device of npu, got 'cpu'"):
        torch_npu._C._construct_storage_from_data_pointer(x.data_ptr(), "cpu", 4)


def test_the_runtime_of_the_vendor():
    import acl

    x, y = torch.arange(4.0, device="npu"), torch.zeros(4, device="npu")
    assert acl.rt.memcpy(y.data_ptr(), 16, x.data_ptr(), 16, 3) == 0 and torch.equal(x, y)
    assert acl.rt.memcpy(y.data_ptr(), 8, x.data_ptr(), 16, 3) == 100000
    assert acl.init() == acl.finalize() == acl.rt.set_device(0) == acl.rt.synchronize_device() == 0
    assert acl.rt.set_device(99) == 100000
    assert acl.rt.get_device() == (0, 0) and acl.rt.get_device_count() == (torch.npu.device_count(), 0)
    assert acl.get_soc_name() == torch.npu.get_device_name()
    before = acl.rt.get_mem_info(1)
    address, error = acl.rt.malloc(1000, 0)
    assert error == 0 and before[0] - acl.rt.get_mem_info(1)[0] == 1000 and before[2] == 0
    assert acl.rt.free(address) == 0 and acl.rt.free(address) == 100000
    assert acl.rt.malloc(1 << 60, 0) == (0, 200000)
