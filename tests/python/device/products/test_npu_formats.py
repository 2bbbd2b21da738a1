# SPDX-License-Identifier: Apache-2.0
"""Formats of npu tensors, operators on whole storages, operators that print and save tensors."""

from __future__ import annotations

import builtins
import gc
import io
import re
import warnings
from collections.abc import Iterator

import pytest
import torch
import torch_npu
from torch._subclasses.fake_tensor import FakeTensorMode

ND, NZ, NC1HWC0, NCHW = 2, 29, 3, 0
ops = torch.ops.npu


@pytest.fixture(autouse=True)
def internal_formats() -> Iterator[None]:
    torch.npu.config.allow_internal_format = True
    yield
    torch.npu.config.allow_internal_format = False


def _in_nz() -> torch.Tensor:
    return torch_npu.npu_format_cast(torch.arange(12.0, device="npu").reshape(3, 4), NZ)


def test_a_cast_keeps_values_in_memory_of_its_own():
    x = torch.arange(12.0, device="npu").reshape(3, 4).t()
    y = torch_npu.npu_format_cast(x, NZ)
    assert torch_npu.get_npu_format(x) == ND and torch_npu.get_npu_format(y) == NZ == torch_npu.Format.FRACTAL_NZ
    assert torch.equal(x, y) and y.is_contiguous() and y.data_ptr() != x.data_ptr()
    assert torch_npu.get_npu_format(torch_npu.npu_format_cast(y, ND)) == ND


@pytest.mark.parametrize(
    "cast",
    [
        lambda x: ops.npu_format_cast(x, NZ, customize_dtype=torch.int8, input_dtype=torch_npu.int4),
        lambda x: ops._npu_format_cast(x, NZ),
        lambda x: ops._npu_format_cast(x, NZ, 1),
        lambda x: ops._npu_format_cast(x, NZ, 1, 1),
    ],
)
def test_all_overloads(cast):
    x = torch.arange(12, dtype=torch.int8, device="npu").reshape(3, 4)
    y = cast(x)
    assert torch_npu.get_npu_format(y) == NZ and torch.equal(x, y)
    fake = cast(torch.empty(3, 4, dtype=torch.int8, device="meta"))
    assert (fake.shape, fake.stride(), fake.dtype) == (y.shape, y.stride(), y.dtype)


def test_in_place_casts_keep_memory():
    x = torch.ones(3, 4, device="npu")
    address = x.data_ptr()
    assert torch_npu.npu_format_cast_(x, NZ) is x and torch_npu.get_npu_format(x) == NZ
    torch_npu.npu_format_cast_(x, torch.ones(1, device="npu"))
    assert torch_npu.get_npu_format(x) == ND and x.data_ptr() == address


def test_views_and_clones_have_the_format_and_results_have_not():
    x = _in_nz()
    for same in (x[1:], x.t(), x.view(-1), x.detach(), x.clone(), torch.nn.Parameter(x)):
        assert torch_npu.get_npu_format(same) == NZ
    for plain in (x + 1, x.to(torch.float16), x.npu().mul(2), torch.empty_like(x)):
        assert torch_npu.get_npu_format(plain) == ND
    y = torch.zeros(3, 4, device="npu")
    y.copy_(x)
    assert torch_npu.get_npu_format(y) == ND and torch.equal(x, y)
    linear = torch.nn.Linear(4, 3, device="npu")
    linear.weight.data = x
    assert torch_npu.get_npu_format(linear.weight) == NZ
    assert linear(torch.ones(2, 4, device="npu")).shape == (2, 3)


def test_files_keep_formats_on_npu():
    buffer = io.BytesIO()
    torch.save({"x": _in_nz()}, buffer)
    buffer.seek(0)
    assert torch_npu.get_npu_format(torch.load(buffer)["x"]) == NZ
    buffer.seek(0)
    assert torch.load(buffer, map_location="cpu")["x"].is_cpu


def test_what_files_keep_of_fake_tensors():
    x = torch_npu.npu_format_cast(torch.ones(2, 3, device="npu"), NZ)
    assert torch._utils.get_tensor_metadata(x) == {"npu_format_29": True}
    with FakeTensorMode() as mode:
        assert torch._utils.get_tensor_metadata(mode.from_tensor(x)) == {}


@pytest.mark.feature("6.39")
@torch.no_grad()
def test_weights_of_a_model_get_internal_formats():
    import torchair

    half, single = torch.nn.Conv2d(3, 8, 1).half(), torch.nn.Conv2d(3, 8, 1)
    model = torch.nn.ModuleList([half, single, torch.nn.Sequential(torch.nn.Linear(4, 8)), torch.nn.LayerNorm(4)]).npu()
    before = [(parameter.data_ptr(), parameter.clone()) for parameter in model.parameters()]
    torchair.use_internal_format_weight(model)
    formats = {name: torch_npu.get_npu_format(x) for name, x in model.named_parameters() if name.endswith("weight")}
    assert formats == {"0.weight": 4, "1.weight": ND, "2.0.weight": NZ, "3.weight": ND}
    for parameter, (address, values) in zip(model.parameters(), before, strict=True):
        assert parameter.data_ptr() == address and torch.equal(parameter, values)
    x = torch.ones(2, 4, device="npu")
    fast = torch.compile(model[2], backend=torchair.get_npu_backend(), fullgraph=True)
    torch.testing.assert_close(fast(x), model[2](x))
    assert torch_npu.get_npu_format(torchair.npu_format_cast_via_cpu(x, NZ)) == NZ


def test_internal_formats_can_be_forbidden():
    torch.npu.config.allow_internal_format = False
    x = torch.ones(1, 2, 3, 4, device="npu")
    text = "npu_format_cast: the format FRACTAL_NZ becomes ND, as torch.npu.config.allow_internal_format is False"
    with pytest.warns(UserWarning, match=f"^{re.escape(text)}$"):
        assert torch_npu.get_npu_format(torch_npu.npu_format_cast(x, NZ)) == ND
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=re.escape(text)):
            torch_npu.npu_format_cast(x, NZ)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert torch_npu.get_npu_format(torch_npu.npu_format_cast(x, NC1HWC0)) == NCHW
        assert torch_npu.get_npu_format(torch_npu.empty_with_format((2, 3), device="npu", acl_format=NZ)) == ND
    assert torch_npu.get_npu_format(torch_npu.npu_format_cast(x, NCHW)) == NCHW
    kept = torch_npu.unsafe_empty_with_format((2, 3), device="npu", acl_format=NZ, keep_format=True)
    assert torch_npu.get_npu_format(kept) == NZ
    with pytest.raises(TypeError, match=r"torch\.npu\.config\.allow_internal_format takes a bool, got 'yes'"):
        torch.npu.config.allow_internal_format = "yes"


def test_empty_tensors_in_a_format():
    x = torch_npu.empty_with_format((2, 3), dtype=torch.float16, device="npu:1", acl_format=NZ)
    assert (x.shape, x.dtype, x.device) == ((2, 3), torch.float16, torch.device("npu:1"))
    assert torch_npu.get_npu_format(x) == NZ
    assert torch_npu.empty_with_format((2, 3)).device.type == "npu"
    assert torch_npu.unsafe_empty_with_format((4,), acl_format=NZ).device.type == "npu"
    assert torch_npu.empty_with_format((2, 3), device="meta").is_meta
    with FakeTensorMode():
        fake = torch_npu.empty_with_format((2, 3), device="npu", acl_format=NZ)
        assert fake.device.type == "npu" and torch_npu.npu_format_cast(fake, ND).shape == (2, 3)
    with pytest.raises(NotImplementedError, match="empty_with_format: device is cpu, allowed is npu"):
        torch_npu.empty_with_format((2,), device="cpu")


def test_empty_tensors_in_memory_of_the_host():
    x = torch_npu.empty_with_swapped_memory((2, 3), dtype=torch.float16, device="npu:1")
    assert (x.shape, x.dtype, x.device) == ((2, 3), torch.float16, torch.device("npu:1"))
    assert torch.equal(x.fill_(2).cpu(), torch.full((2, 3), 2.0, dtype=torch.float16))
    assert torch_npu.empty_with_swapped_memory((4,)).device.type == "npu"
    with FakeTensorMode():
        assert torch_npu.empty_with_swapped_memory((4,), device="npu").device.type == "npu"
    with pytest.raises(NotImplementedError, match="empty_with_swapped_memory: device is cpu, allowed is npu"):
        torch_npu.empty_with_swapped_memory((2,), device="cpu")


def test_gradients_pass_a_cast():
    x = torch.ones(3, 4, device="npu", requires_grad=True)
    (torch_npu.npu_format_cast(x, NZ) * 3).sum().backward()
    assert torch.equal(x.grad.cpu(), torch.full((3, 4), 3.0))


def test_compiled_graphs_cast():
    @torch.compile(backend="npugraph_ex", fullgraph=True)
    def model(x):
        return torch_npu.npu_format_cast(x * 2, NZ) + 1

    x = torch.randn(4, 5, device="npu")
    with torch.no_grad():
        assert torch.equal(model(x).cpu(), x.cpu() * 2 + 1)


@pytest.mark.parametrize("backend", ["npugraph_ex", "aot_eager"])
def test_compiled_graphs_differentiate_a_cast(backend: str):
    @torch.compile(backend=backend, fullgraph=True)
    def model(x):
        return (torch_npu.npu_format_cast(x * 2, NZ) * 3).sum()

    x = torch.ones(2, 3, device="npu", requires_grad=True)
    model(x).backward()
    assert torch.equal(x.grad.cpu(), torch.full((2, 3), 6.0))


def test_a_question_for_the_format_ends_a_graph():
    @torch.compile(backend="npugraph_ex")
    def model(x):
        y = x * 2
        return y + 1 if torch_npu.get_npu_format(x) == NZ else y

    x = torch.ones(2, 3, device="npu", requires_grad=True)
    assert model(x).sum().item() == 12
    torch_npu.npu_format_cast_(x.data, NZ)
    assert model(x).sum().item() == 18


@pytest.mark.parametrize("code", [-1, 5, 99])
def test_a_format_that_is_none(code: int):
    text = rf"npu_format_cast: {code} is no format of tensors, allowed are 0 \(NCHW\), 1 \(NHWC\), 2 \(ND\)"
    with pytest.raises(RuntimeError, match=text):
        torch_npu.npu_format_cast(torch.ones(2, device="npu"), code)


def test_tensors_of_cpu_have_no_formats():
    x, y = torch.ones(2), torch.ones(2, device="npu")
    for call in (
        lambda: torch_npu.npu_format_cast(x, NZ),
        lambda: torch_npu.get_npu_format(x),
        lambda: torch_npu.get_storage_size(x),
        lambda: torch_npu.copy_memory_(x, x),
    ):
        with pytest.raises(NotImplementedError, match="CPU"):
            call()
    with pytest.raises(NotImplementedError, match="npu_format_cast_: src is on cpu, allowed is npu"):
        torch_npu.npu_format_cast_(y, x)


def test_sizes_of_storages():
    x = torch.ones(10, dtype=torch.float16, device="npu")
    assert torch_npu.get_storage_size(x) == torch_npu.get_storage_size(x[3:5]) == 10


def test_copies_of_memory():
    x, y = torch.zeros(2, 3, device="npu"), torch.arange(6.0, device="npu")
    assert torch_npu.copy_memory_(x, y, non_blocking=True) is x and x.flatten().tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(RuntimeError, match="copy_memory_: src is of type Half, allowed are Float"):
        torch_npu.copy_memory_(x, y.half())
    with pytest.raises(RuntimeError, match="copy_memory_: src is on npu:1, allowed is npu:0, where input is"):
        torch_npu.copy_memory_(x, y.to("npu:1"))
    with pytest.raises(RuntimeError, match="the storage of src holds 7 elements, allowed are 6, as input has"):
        torch_npu.copy_memory_(x, torch.ones(7, device="npu"))


def test_a_tensor_can_stand_on_the_memory_of_another():
    gc.collect()
    before = torch.npu.memory_allocated()
    big = torch.arange(8.0, device="npu")
    part = torch.zeros(3, device="npu")
    view = part[1:]
    assert torch_npu.npu_change_data_ptr(part, big, 2) == 0
    assert part.tolist() == [2, 3, 4] and view.tolist() == [3, 4] and part.data_ptr() == big.data_ptr() + 8
    assert torch.npu.memory_allocated() - before == 32
    part.add_(1)
    assert big.tolist() == [0, 1, 3, 4, 5, 5, 6, 7]
    del big
    assert part.tolist() == [3, 4, 5]
    text = (
        "npu_change_data_ptr: index is 6, allowed are 0 to 5, as the storage of src holds 8 elements and that of dst 3"
    )
    with pytest.raises(RuntimeError, match=text):
        torch_npu.npu_change_data_ptr(torch.zeros(3, device="npu"), torch.zeros(8, device="npu"), 6)
    with pytest.raises(RuntimeError, match="npu_change_data_ptr: src is of type Int, allowed are Float"):
        torch_npu.npu_change_data_ptr(torch.zeros(3, device="npu"), torch.zeros(8, device="npu", dtype=torch.int), 0)


def test_weak_references_are_other_tensors_over_the_memory():
    x = torch.ones(2, 3, device="npu")
    weak = torch_npu._C._weak_ref_tensor(x[1])
    assert weak.data_ptr() == x[1].data_ptr() and weak.shape == (3,) and weak.device == x.device
    weak.add_(1)
    assert x.tolist() == [[1, 1, 1], [2, 2, 2]]
    with pytest.raises(TypeError, match="_weak_ref_tensor: tensor is cpu, and must be a tensor of npu"):
        torch_npu._C._weak_ref_tensor(torch.ones(1))


@pytest.mark.feature("3.15")
@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_tensors_are_printed_by_python(device: str, monkeypatch: pytest.MonkeyPatch):
    printed: list[str] = []
    monkeypatch.setattr(builtins, "print", printed.append)
    torch_npu.print_npugraph_tensor(torch.tensor([1.5, 2.5], device=device), tensor_name="logits")
    torch_npu.print_npugraph_tensor(torch.tensor([[7]], device=device, dtype=torch.int32))
    torch_npu.print_npugraph_tensor(torch.tensor(2.5, device=device), tensor_name="loss")
    monkeypatch.undo()
    assert printed == [
        "logits=tensor([1.5000, 2.5000]), shape=(2,), dtype=torch.float32",
        "tensor([[7]], dtype=torch.int32), shape=(1, 1), dtype=torch.int32",
        "loss=tensor(2.5000), shape=(), dtype=torch.float32",
    ]


@pytest.mark.feature("3.15", "9.06")
@pytest.mark.parametrize(("device", "name"), [("cpu", "cpu"), ("npu", "0"), ("npu:1", "1")])
def test_tensors_are_saved(device: str, name: str, tmp_path, monkeypatch: pytest.MonkeyPatch):
    x = torch.arange(6.0, device=device)
    path = tmp_path / "new" / "x.pt"
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / f"x_device_{name}_1.pt").write_text("mine")
    torch_npu.save_npugraph_tensor(x[2:4], save_path=str(path))
    torch_npu.save_npugraph_tensor([x, x + 1], save_path=str(path))
    for value in (x, x + 1):
        torch_npu.save_npugraph_tensor(value, save_path=str(path), overwrite=True)
    torch_npu.save_npugraph_tensor(x, save_path=str(tmp_path / "other" / "y"))
    assert sorted(str(one.relative_to(tmp_path)) for one in tmp_path.rglob("*.pt")) == [
        f"new/x_device_{name}.pt",
        f"new/x_device_{name}_0.pt",
        f"new/x_device_{name}_1.pt",
        f"new/x_device_{name}_2.pt",
        f"other/y_device_{name}_0.pt",
    ]
    assert torch.load(path.with_name(f"x_device_{name}_0.pt")).tolist() == [2, 3]
    assert path.with_name(f"x_device_{name}_1.pt").read_text() == "mine"
    pair = torch.load(path.with_name(f"x_device_{name}_2.pt"))
    assert pair[0].is_cpu and pair[1].tolist() == [1, 2, 3, 4, 5, 6]
    assert torch.load(path.with_name(f"x_device_{name}.pt")).tolist() == [1, 2, 3, 4, 5, 6]
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        torch_npu.save_npugraph_tensor(x)
    first, second = sorted(one.name for one in tmp_path.glob("*.pt"))
    numbers = [re.fullmatch(rf"tensor_\d{{14}}_device_{name}_(\d+)\.pt", one) for one in (first, second)]
    assert numbers[0] and numbers[1] and int(numbers[1][1]) == int(numbers[0][1]) + 1
    with pytest.raises(RuntimeError, match=r"save_npugraph_tensor: cannot write .*below_a_file"):
        torch_npu.save_npugraph_tensor(x, save_path=str(path.with_name(f"x_device_{name}.pt") / "below_a_file.pt"))


def test_a_saved_view_is_saved_without_the_rest(tmp_path):
    torch_npu.save_npugraph_tensor(torch.zeros(100_000)[:2], save_path=str(tmp_path / "x.pt"), overwrite=True)
    assert (tmp_path / "x_device_cpu.pt").stat().st_size < 10_000


@pytest.mark.parametrize("device", ["cpu", "npu"])
@pytest.mark.parametrize("backend", ["npugraph_ex", "aot_eager"])
def test_graphs_print_and_save_at_every_call(device: str, backend: str, tmp_path, capsys):
    path = str(tmp_path / "x.pt")

    @torch.compile(backend=backend, fullgraph=True)
    def model(x):
        torch_npu.print_npugraph_tensor(x * 2, tensor_name="doubled")
        torch_npu.save_npugraph_tensor(x + 1, save_path=path)
        return x * 3

    with torch.no_grad():
        for value in range(3):
            model(torch.full((2,), float(value), device=device))
    printed = [f"doubled=tensor([{x}., {x}.]), shape=(2,), dtype=torch.float32" for x in (0, 2, 4)]
    assert capsys.readouterr().out.splitlines() == printed
    name = "0" if device == "npu" else "cpu"
    assert [torch.load(tmp_path / f"x_device_{name}_{i}.pt").tolist() for i in range(3)] == [[1, 1], [2, 2], [3, 3]]


@pytest.mark.feature("3.15")
@pytest.mark.parametrize("compiled", [False, True])
def test_captured_graphs_print_and_save_at_replays_only(compiled: bool, tmp_path, capsys):
    path = f"{tmp_path}/x.pt"

    def model(x):
        torch_npu.print_npugraph_tensor(x * 2, tensor_name="doubled")
        torch_npu.save_npugraph_tensor(x + 1, save_path=path)
        return x * 3

    if compiled:
        model = torch.compile(model, backend="npugraph_ex", fullgraph=True)
    x = torch.zeros(2, device="npu")
    graph = torch.npu.NPUGraph()
    with torch.no_grad(), torch.npu.graph(graph):
        y = model(x)
    assert capsys.readouterr().out == "" and not list(tmp_path.iterdir())
    for value in (1.0, 2.0):
        x.fill_(value)
        graph.replay()
        assert y.tolist() == [3 * value] * 2
    assert re.findall(r"doubled=tensor\(\[(\d)\., \d\.\]\), shape", capsys.readouterr().out) == ["2", "4"]
    assert [torch.load(tmp_path / f"x_device_0_{i}.pt").tolist() for i in range(2)] == [[2, 2], [3, 3]]


@pytest.mark.parametrize("device", ["cpu", "npu"])
def test_graphs_with_gradients_print_too(device: str, capsys):
    def model(x):
        torch_npu.print_npugraph_tensor(x * 2)
        return (x * 3).sum()

    for call in (model, torch.compile(model, backend="npugraph_ex", fullgraph=True)):
        x = torch.ones(2, device=device, requires_grad=True)
        call(x).backward()
        assert x.grad.tolist() == [3, 3]
        assert capsys.readouterr().out == "tensor([2., 2.]), shape=(2,), dtype=torch.float32\n"
