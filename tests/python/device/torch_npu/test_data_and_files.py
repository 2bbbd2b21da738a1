# SPDX-License-Identifier: Apache-2.0
"""Data loaders and files of tensors of npu."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
import torch_npu
from torch.utils.data import DataLoader, Dataset, TensorDataset

_ROWS = 10


def _dataset(device: str) -> TensorDataset:
    return TensorDataset(torch.arange(_ROWS * 3.0).reshape(_ROWS, 3).to(device), torch.arange(_ROWS).to(device))


class _Rows(Dataset):
    """Rows as dictionaries. Their tensors are made on ``device`` when a row is asked for."""

    def __init__(self, device: str):
        self.device = device

    def __len__(self) -> int:
        return _ROWS

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": torch.full((3,), float(index), device=self.device), "name": str(index)}


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_of_pinned_memory(workers: int):
    loader = DataLoader(_dataset("cpu"), batch_size=4, num_workers=workers, pin_memory=True)
    rows = list(loader)
    assert len(rows) == 3 and all(x.is_pinned() and y.is_pinned() and x.is_cpu for x, y in rows)
    on_npu = torch.cat([x.to("npu", non_blocking=True) for x, _ in rows])
    assert torch.equal(on_npu.cpu(), _dataset("cpu").tensors[0])


def test_what_is_not_pinned_by_itself():
    batch = next(iter(DataLoader(_Rows("cpu"), batch_size=2, pin_memory=True)))
    assert batch["x"].is_pinned() and batch["name"] == ["0", "1"]
    assert not next(iter(DataLoader(_Rows("cpu"), batch_size=2)))["x"].is_pinned()


@pytest.mark.parametrize("context", [None, "fork", pytest.param("spawn", marks=pytest.mark.long)])
def test_loaders_of_tensors_of_npu(context: str | None):
    loader = DataLoader(
        _Rows("npu:1"), batch_size=4, num_workers=2 if context else 0, multiprocessing_context=context, in_order=True
    )
    found = torch.cat([batch["x"] for batch in loader])
    assert found.device == torch.device("npu:1") and found[:, 0].tolist() == list(range(_ROWS))


def test_samplers_that_draw_numbers():
    orders = []
    for _ in range(2):
        generator = torch.Generator().manual_seed(5)
        loader = DataLoader(_dataset("npu"), batch_size=3, shuffle=True, generator=generator)
        orders.append(torch.cat([y for _, y in loader]))
    assert torch.equal(*orders) and orders[0].is_npu and sorted(orders[0].tolist()) == list(range(_ROWS))
    first, second = torch.utils.data.random_split(_dataset("npu"), [7, 3], generator)
    assert len(first) == 7 and second[0][0].is_npu


def _state(device: str) -> dict[str, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(2, 3, device=device)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3, "names": ["a"]}


def _tensors(value: Any) -> list[torch.Tensor]:
    return [one for one in torch.utils._pytree.tree_leaves(value) if isinstance(one, torch.Tensor)]


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("saved, loaded", [("npu", "cpu"), ("cpu", "npu:1"), ("npu:1", "npu:0"), ("npu:1", None)])
def test_states_of_training_go_from_device_to_device(
    weights_only: bool, saved: str, loaded: str | None, tmp_path: Path
):
    state = _state(saved)
    torch.save(state, tmp_path / "state.pt")
    found = torch.load(tmp_path / "state.pt", map_location=loaded, weights_only=weights_only)
    assert found["step"] == 3 and found["names"] == ["a"]
    for one, other in zip(_tensors(found["model"]), _tensors(state["model"]), strict=True):
        assert one.device == torch.device(loaded or saved) and torch.equal(one.cpu(), other.cpu())
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).to(loaded or saved)
    model.load_state_dict(found["model"])
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.load_state_dict(found["optimizer"])
    moments = [one for one in _tensors(optimizer.state_dict()["state"]) if one.dim()]
    assert moments and all(one.device == torch.device(loaded or saved) for one in moments)


@pytest.mark.parametrize(
    "location", ["npu", torch.device("npu:1"), lambda storage, place: storage.npu(1), {"cpu": "npu"}]
)
def test_ways_to_say_where_tensors_go(location: Any):
    buffer = io.BytesIO()
    x = torch.arange(4.0)
    torch.save([x, x[1:]], buffer)
    buffer.seek(0)
    found, view = torch.load(buffer, map_location=location)
    assert found.is_npu and found.tolist() == [0, 1, 2, 3]
    assert view.untyped_storage().data_ptr() == found.untyped_storage().data_ptr()


def test_files_of_the_old_form_and_mapped_files(tmp_path: Path):
    x = torch.arange(4.0, device="npu")
    torch.save(x, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert not zipfile.is_zipfile(tmp_path / "old.pt")
    assert torch.load(tmp_path / "old.pt").is_npu and torch.load(tmp_path / "old.pt", map_location="cpu").is_cpu
    torch.save(x.cpu(), tmp_path / "new.pt")
    assert torch.equal(torch.load(tmp_path / "new.pt", map_location="npu", mmap=True), x)


def test_parameters_and_types(tmp_path: Path):
    parameter = torch.nn.Parameter(torch.ones(2, device="npu"))
    types = [torch.ones(3, device="npu").to(dtype) for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.complex64)]
    torch.save([parameter, types], tmp_path / "x.pt")
    found = torch.load(tmp_path / "x.pt")
    assert isinstance(found[0], torch.nn.Parameter) and found[0].is_npu and found[0].requires_grad
    assert [one.dtype for one in found[1]] == [one.dtype for one in types] and all(one.is_npu for one in found[1])
    low = torch_npu.HiFloat8Tensor.to_hifloat8(torch.ones(2, device="npu"))
    torch.save(low, tmp_path / "low.pt")
    again = torch.load(tmp_path / "low.pt", weights_only=False)
    assert type(again) is torch_npu.HiFloat8Tensor and again.is_npu and torch.equal(again._data, low._data)


def test_files_without_data(tmp_path: Path):
    with torch.serialization.skip_data():
        torch.save({"x": torch.ones(2, device="npu")}, tmp_path / "empty.pt")
    found = torch.load(tmp_path / "empty.pt")["x"]
    assert found.shape == (2,) and found.is_npu


def test_safetensors_keep_tensors_and_load_on_any_device(tmp_path: Path):
    safetensors = pytest.importorskip("safetensors.torch")
    given = {"x": torch.randn(3, 4, device="npu:1"), "y": torch.ones(2, dtype=torch.bfloat16, device="npu")}
    safetensors.save_file(given, tmp_path / "x.safetensors")
    for device in ("cpu", "npu", "npu:1"):
        found = safetensors.load_file(tmp_path / "x.safetensors", device=device)
        assert found["x"].device == torch.empty(0, device=device).device
        assert all(torch.equal(found[name].cpu(), given[name].cpu()) for name in given)
    model = torch.nn.Linear(3, 4, device="npu")
    safetensors.save_model(model, tmp_path / "model.safetensors")
    other = torch.nn.Linear(3, 4, device="npu:1")
    safetensors.load_model(other, tmp_path / "model.safetensors", device="npu:1")
    assert torch.equal(other.weight.cpu(), model.weight.cpu()) and other.weight.device.index == 1
