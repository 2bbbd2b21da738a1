# SPDX-License-Identifier: Apache-2.0
"""The npu device as scripts meet it: devices, moving tensors, views, errors."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading

import pytest
import torch

import npugraph
from tests.python.device.products_of_npu import ProductsOfNpu
from tests.python.forks import run_python


def test_import_torch_alone_makes_the_device():
    code = """
import sys, torch
assert torch.npu.is_available()
x = torch.ones(2).npu()
assert x.device == torch.device("npu:0") and x.is_npu, x.device
assert "torch._dynamo" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_torch_npu_first_works_too():
    code = "import torch_npu, torch; assert torch.ones(2, device='npu').sum().item() == 2"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_autoload_there_is_no_npu_and_the_backend_works_on_cpu():
    code = """
import sys
for name in ("torch_npu", "npugraph._ascend"):
    sys.modules[name] = None  # importing it fails, as where it is not installed
import torch, torch._dynamo
assert not hasattr(torch, "npu")
f = torch.compile(lambda x: (x @ x).relu(), backend="npugraph_ex")
x = torch.randn(8, 8)
with torch.no_grad():
    torch.testing.assert_close(f(x), (x @ x).relu())
layer = torch.nn.Linear(8, 8)
torch.compile(layer, backend="npugraph_ex")(x).sum().backward()
torch.testing.assert_close(layer.weight.grad, x.sum(0).expand(8, 8))
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=_environment(TORCH_DEVICE_BACKEND_AUTOLOAD="0"))


def test_a_saved_program_of_npu_names_the_device_that_a_process_lacks(tmp_path):
    compiled = torch.compile(lambda x: (x @ x).relu(), backend="npugraph_ex")
    with torch.no_grad():
        compiled(torch.ones(4, 4, device="npu"))
    npugraph.artifacts()[-1].save(tmp_path / "saved.npg")
    code = f"import npugraph; npugraph.load({str(tmp_path / 'saved.npg')!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=_environment(TORCH_DEVICE_BACKEND_AUTOLOAD="0"),
    )
    assert "is for tensors of npu, and this process has no such device: import torch_npu first" in done.stderr


def _environment(**changed: str) -> dict[str, str]:
    return {**os.environ, **changed}


def test_the_current_device_follows_contexts_and_calls():
    assert torch.npu.device_count() == 2
    assert torch.npu.current_device() == 0
    with torch.npu.device(1):
        assert torch.npu.current_device() == 1
        assert torch.ones(1, device="npu").device.index == 1
    assert torch.npu.current_device() == 0
    with torch.npu.device_of(torch.ones(1, device="npu:1")):
        assert torch.npu.current_device() == 1
    torch.npu.set_device("npu:1")
    try:
        assert torch.npu.current_device() == 1
        assert torch.accelerator.current_device_index() == 1
    finally:
        torch.npu.set_device(0)


def test_the_current_device_belongs_to_its_thread():
    seen = []
    with torch.npu.device(1):
        thread = threading.Thread(target=lambda: seen.append(torch.npu.current_device()))
        thread.start()
        thread.join()
    assert seen == [0]


@pytest.mark.parametrize(
    "variables, count", [({"NPUGRAPH_DEVICES": "4"}, 4), ({"ASCEND_RT_VISIBLE_DEVICES": "3,5,7"}, 3)]
)
def test_how_many_devices_there_are_can_be_set(variables: dict[str, str], count: int):
    code = f"import torch; assert torch.npu.device_count() == {count}"
    run_python("-c", code, check=True, env=_environment(**variables))


def test_a_device_that_is_not_there():
    with pytest.raises(RuntimeError, match=r"there is no device npu:7: this process has 2"):
        torch.ones(1, device="npu:7")
    with pytest.raises(RuntimeError, match=r"there is no device npu:7"):
        torch.npu.set_device(7)


def test_properties_are_those_of_an_ascend_910b():
    properties = torch.npu.get_device_properties(0)
    assert (properties.name, properties.total_memory) == ("Ascend910B1", torch.npu.mem_get_info()[1])
    assert (properties.cube_core_num, properties.vector_core_num) == (24, 48)
    assert torch.npu.get_device_name() == "Ascend910B1"
    assert torch.npu.get_device_capability() is None


def test_moving_keeps_values_and_makes_copies():
    x = torch.arange(6.0).reshape(2, 3)
    y = x.npu()
    y.add_(1)
    assert torch.equal(y.cpu(), x + 1)
    assert y.npu() is y and y.cpu() is not y
    assert y.to("npu:1").device.index == 1 and torch.equal(y.to("npu:1").cpu(), y.cpu())
    assert y.to(torch.float16).device == y.device
    x.copy_(y)
    assert torch.equal(x, y.cpu())
    assert y.tolist() == x.tolist() and y[0, 1].item() == 2.0


def test_views_share_memory_with_their_base():
    x = torch.zeros(4, 6, device="npu")
    x[1:3, ::2] = 1
    x.t()[0].add_(5)
    x.view(-1)[1] = 7
    y = torch.zeros(4, 6)
    y[1:3, ::2] = 1
    y.t()[0].add_(5)
    y.view(-1)[1] = 7
    assert torch.equal(x.cpu(), y)
    for view in (x.chunk(2)[1], x.unbind()[2], x.unfold(0, 2, 1), x.diagonal(), x.expand(2, 4, 6), x.view_as(x)):
        assert view._base is x and view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_views_through_cpu_kernels_share_memory_too():
    x = torch.randn(4, 2, device="npu")
    z = torch.view_as_complex(x)
    z.mul_(2j)
    assert z.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert torch.equal(torch.view_as_real(z).cpu(), x.cpu())
    assert torch.equal(torch.view_as_real(z.conj().resolve_conj())[:, 1].cpu(), -x[:, 1].cpu())


def test_out_is_resized():
    out = torch.empty(0, device="npu")
    alias = out.view(-1)
    torch.add(torch.ones(1000, device="npu"), 1, out=out)
    assert out.shape == (1000,) and out.sum().item() == 2000
    assert alias.untyped_storage().nbytes() == 4000
    assert out.untyped_storage().data_ptr() == alias.untyped_storage().data_ptr()


def test_an_operator_that_fails_leaves_out_usable():
    out = torch.empty(0, device="npu")
    with pytest.raises(RuntimeError):
        torch.mm(torch.ones(2, 3, device="npu"), torch.ones(2, 3, device="npu"), out=out)
    torch.mm(torch.ones(2, 3, device="npu"), torch.ones(3, 2, device="npu"), out=out)
    assert out.tolist() == [[3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda npu, cpu: npu + cpu,
        lambda npu, cpu: cpu + npu,
        lambda npu, cpu: torch.mm(npu, cpu),
        lambda npu, cpu: torch.cat([npu, cpu]),
        lambda npu, cpu: cpu.add_(npu),
        lambda npu, cpu: torch.where(npu > 0, npu, cpu),
        lambda npu, cpu: torch.add(npu, npu, out=cpu),
        lambda npu, cpu: cpu[0, 0].add_(npu[0, 0]),
        lambda npu, cpu: npu + npu.to("npu:1"),
        lambda npu, cpu: torch.unique(npu, return_inverse=True)[0].bincount(cpu),
    ],
)
def test_devices_do_not_mix(call):
    npu, cpu = torch.ones(2, 2, device="npu"), torch.ones(2, 2)
    with pytest.raises(RuntimeError):
        call(npu, cpu)


def test_the_error_of_mixed_devices_names_both():
    with pytest.raises(RuntimeError, match=r"at least two devices, npu:0 and cpu! \(in aten::mm"):
        torch.mm(torch.ones(2, 2, device="npu"), torch.ones(2, 2))


def test_what_real_devices_take_from_the_host():
    npu = torch.arange(4.0, device="npu")
    assert (npu + torch.tensor(1.0)).tolist() == [1, 2, 3, 4]
    assert npu[torch.tensor([0, 2])].tolist() == [0, 2]
    npu[torch.tensor([1])] = 9
    assert npu.tolist() == [0, 9, 2, 3]


SPARSE, QUANTISED = "sparse tensors are not supported on npu", "quantised tensors are not supported on npu"


def coo() -> torch.Tensor:
    return torch.eye(3).to_sparse()


def quantised() -> torch.Tensor:
    return torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.qint8)


def gradient(module: torch.nn.Module) -> torch.Tensor:
    module(torch.tensor([[0, 1]], device="npu")).sum().backward()
    return module.weight.grad


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda x: x.to_sparse(), "layout Sparse are not supported on npu"),
        (lambda x: x.to_sparse_csr(), "layout SparseCsr are not supported on npu"),
        (lambda x: x.to_sparse_bsc((1, 1)), "layout SparseBsc are not supported on npu"),
        (lambda x: x.to_mkldnn(), "layout Mkldnn are not supported on npu"),
        (lambda x: coo().npu(), SPARSE),
        (lambda x: torch.eye(3).to_sparse_csr().to("npu"), SPARSE),
        (lambda x: torch.eye(3).to_sparse_csc().npu(), SPARSE),
        (lambda x: torch.eye(4).to_sparse_bsr((2, 2)).npu(), SPARSE),
        (lambda x: torch.sparse_coo_tensor(torch.zeros(2, 1, dtype=torch.long).npu(), x[0, :1], (3, 3)), SPARSE),
        (lambda x: torch.sparse_coo_tensor((3, 3), device="npu"), SPARSE),
        (lambda x: torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1), device="npu"), SPARSE),
        (lambda x: torch.empty(2, device="npu", layout=torch.sparse_coo), SPARSE),
        (lambda x: torch.zeros(2, 2, device="npu", layout=torch.sparse_csr), SPARSE),
        (lambda x: torch.zeros_like(coo(), device="npu"), SPARSE),
        (lambda x: x.sparse_mask(coo()), SPARSE),
        (lambda x: coo() @ x, SPARSE),
        (lambda x: x + coo(), SPARSE),
        (lambda x: torch.eye(3).to_sparse_csr() @ x, SPARSE),
        (lambda x: gradient(torch.nn.Embedding(4, 3, sparse=True).npu()), SPARSE),
        (lambda x: gradient(torch.nn.EmbeddingBag(4, 3, mode="sum", sparse=True).npu()), "layout Sparse"),
        (lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.qint8), QUANTISED),
        (lambda x: torch.quantize_per_channel(x, x[0], x[0], 0, torch.quint8), QUANTISED),
        (lambda x: torch.quantize_per_tensor_dynamic(x, torch.qint8, False), QUANTISED),
        (lambda x: quantised().npu(), QUANTISED),
        (lambda x: x.copy_(quantised()), QUANTISED),
        (lambda x: x.to(torch.qint8), QUANTISED),
        (lambda x: torch.zeros(2, dtype=torch.quint4x2, device="npu"), QUANTISED),
        (
            lambda x: torch._empty_affine_quantized([2], scale=1, zero_point=0, dtype=torch.qint8, device="npu"),
            QUANTISED,
        ),
        (lambda x: torch.nested.nested_tensor([x[0], x[0, :1]]) + 1, "nested tensors of layout torch.strided are not"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_kinds_of_tensors_that_npu_has_not(call, text: str):
    with pytest.raises(NotImplementedError, match=text):
        call(torch.eye(3, device="npu"))


def test_nested_tensors_of_the_other_layout():
    x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged, device="npu")
    assert [one.tolist() for one in (x + 1).unbind()] == [[2, 2], [2, 2, 2]]


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.zeros(2, names=("a",), device="npu"),
        lambda x: torch.rand(2, names=("a",), device="npu"),
        lambda x: x.refine_names("a", "b"),
        lambda x: x.rename("a", "b"),
    ],
)
def test_dimensions_have_no_names(call):
    with pytest.raises((AttributeError, TypeError), match=r"names|rename"):
        call(torch.eye(3, device="npu"))


def test_copies_pickles_and_text():
    x = torch.arange(3.0, device="npu:1")
    for copied in (copy.deepcopy(x), x.clone(), pickle.loads(pickle.dumps(x))):
        assert copied.device == x.device and torch.equal(copied.cpu(), x.cpu())
        assert copied.data_ptr() != x.data_ptr()
    assert repr(x) == "tensor([0., 1., 2.], device='npu:1')"


def test_modules_move():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).npu()
    assert {one.device for one in (*module.parameters(), *module.buffers())} == {torch.device("npu:0")}
    x = torch.randn(5, 3)
    with ProductsOfNpu():
        expected = copy.deepcopy(module).cpu()(x)
    torch.testing.assert_close(module(x.npu()).cpu(), expected, rtol=0, atol=0)
    lazy = torch.nn.LazyLinear(2).npu()
    assert lazy(torch.ones(1, 3, device="npu")).device.type == "npu"


def test_backward_runs_on_every_device():
    for device in ("npu:0", "npu:1"):
        w = torch.randn(4, 4, device=device, requires_grad=True)
        (w @ w).relu().sum().backward()
        c = w.detach().cpu().requires_grad_()
        with ProductsOfNpu():
            (c @ c).relu().sum().backward()
        assert w.grad.device == w.device and torch.equal(w.grad.cpu(), c.grad)


def test_four_threads_on_two_devices():
    results: list[object] = [None] * 4

    def work(number: int) -> None:
        torch.npu.set_device(number % 2)
        x = torch.full((64, 64), float(number), device="npu", requires_grad=True)
        for _ in range(50):
            y = (x @ x).sum()
        y.backward()
        results[number] = (x.grad.device.index, x.grad.sum().item())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [(number % 2, 2 * 64 * 64 * 64 * float(number)) for number in range(4)]


def test_custom_operators_with_cpu_kernels_run_without_copies():
    with torch.library._scoped_library("npu_device_test", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.define("missing(Tensor x) -> Tensor")
        pointers = []

        def twice(x: torch.Tensor) -> torch.Tensor:
            pointers.append(x.data_ptr())
            assert x.is_cpu
            return x * 2

        library.impl("twice", twice, "CPU")
        x = torch.ones(3, device="npu")
        y = torch.ops.npu_device_test.twice(x)
        assert y.device == x.device and y.tolist() == [2, 2, 2] and pointers == [x.data_ptr()]
        with pytest.raises(NotImplementedError, match="the npu device has no kernel of npu_device_test::missing"):
            torch.ops.npu_device_test.missing(x)


def test_operators_can_be_registered_for_the_device():
    with torch.library._scoped_library("npu_device_test", "DEF") as library:
        library.define("where_am_i(Tensor x) -> str")
        library.impl("where_am_i", lambda x: "cpu", "CPU")
        library.impl("where_am_i", lambda x: "npu", "PrivateUse1")
        assert torch.ops.npu_device_test.where_am_i(torch.ones(1)) == "cpu"
        assert torch.ops.npu_device_test.where_am_i(torch.ones(1, device="npu")) == "npu"
