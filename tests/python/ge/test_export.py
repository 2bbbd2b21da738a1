# SPDX-License-Identifier: Apache-2.0
"""``torchair.dynamo_export``: what it writes, what is an input and what a constant, and what it refuses."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.distributed.fake_pg import FakeStore

from npugraph.ge import const
from npugraph.ge.config import CompilerConfig
from npugraph.ge.converters import MissingConverters
from npugraph.ge.export import dynamo_export, files
from npugraph.log import logger
from tests.python.ge.air_runner import BareRoot, arguments_of, inputs_of, read

pytestmark = pytest.mark.feature("6.47")


class Layer(torch.nn.Module):
    """Has parameters, a buffer that is read, one that is written, and a tensor that is neither."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("calls", torch.zeros(3))
        self.offset = torch.full((3,), 0.5)

    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        return self.linear(x) * self.scale + self.offset + bias + self.calls


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> BareRoot:
    return BareRoot(tmp_path_factory.mktemp("bare"))


def call() -> dict[str, torch.Tensor]:
    return {"x": torch.randn(2, 4), "bias": torch.randn(3)}


def sources(model_def: Any) -> list[tuple[str, str]]:
    return [(op.type, op.attr["_npugraph_source"].s.decode()) for op in inputs_of(model_def)]


def constants(model_def: Any) -> dict[str, Any]:
    """Values of constants that come from the model, by their sources."""
    ops = [op for op in model_def.graph[0].op if op.type == "Const" and "_npugraph_source" in op.attr]
    return {op.attr["_npugraph_source"].s.decode(): const.tensor_of(op.attr["value"].t) for op in ops}


def dims_of(path: Path) -> list[int]:
    """Sizes of the only input."""
    (data,) = inputs_of(read(path))
    return list(data.output_desc[0].shape.dim)


def test_files_and_what_is_in_them(tmp_path: Path, root: BareRoot, caplog: pytest.LogCaptureFixture) -> None:
    model, given = Layer().eval(), call()
    folder = root.files / "layer"
    with caplog.at_level(logging.INFO, logger.name):
        assert dynamo_export(model=model, export_path=folder, **given) is None
    assert sorted(path.name for path in folder.iterdir()) == ["dynamo.pbtxt", "export.air"]
    model_def = read(folder / "export.air")
    assert model_def.name == "export" and model_def.graph[0].name == "export"
    # What the graph writes comes last.
    assert sources(model_def) == [("Data", "L['x']"), ("Data", "L['bias']"), ("RefData", "L['self']._buffers['calls']")]
    values = constants(model_def)
    assert torch.equal(values["L['self']._modules['linear']._parameters['weight']"], model.linear.weight)
    assert torch.equal(values["L['self']._buffers['scale']"], model.scale)
    assert torch.equal(values["L['self'].offset"], model.offset)
    assert sum(name.startswith("L['self']") for name in values) == 4
    assert 'op: "MatMul' in (folder / "dynamo.pbtxt").read_text()
    assert torch.equal(model.calls, torch.zeros(3))  # the model has not run
    texts = [record.getMessage() for record in caplog.records]
    assert any(text.startswith(f"dynamo_export: wrote {folder / 'export.air'}: ") for text in texts)
    assert f"dynamo_export: input 1 of {folder / 'export.air'} is L['bias']" in texts
    (result,) = root.run("layer/export.air", arguments_of(model_def, model, (), given))
    np.testing.assert_allclose(result, model(**given).detach(), rtol=1e-5, atol=1e-6)


def test_functions_have_constants_too(tmp_path: Path) -> None:
    layer, table = torch.nn.Linear(4, 4), torch.randn(4)

    def function(x: torch.Tensor, *, weight: torch.Tensor) -> torch.Tensor:
        return layer(x) @ weight + table

    dynamo_export(torch.randn(2, 4), model=function, export_path=tmp_path, weight=torch.nn.Parameter(torch.eye(4)))
    model_def = read(tmp_path / "export.air")
    assert sources(model_def) == [("Data", "L['x']"), ("Data", "L['weight']")]
    assert any(torch.equal(value, table) for value in constants(model_def).values())


def test_sizes_are_known_or_not(tmp_path: Path, root: BareRoot) -> None:
    model = torch.nn.Linear(4, 3)
    dynamo_export(torch.randn(5, 4), model=model, export_path=tmp_path, export_name="five")
    dynamo_export(torch.randn(5, 4), model=model, export_path=root.files, export_name="any", dynamic=True)
    dims = [
        list(inputs_of(read(path))[0].output_desc[0].shape.dim)
        for path in (tmp_path / "five.air", root.files / "any.air")
    ]
    assert dims == [[5, 4], [-1, 4]]
    for rows in (2, 7):
        x = torch.randn(rows, 4)
        (result,) = root.run("any.air", [x])
        np.testing.assert_allclose(result, model(x).detach(), rtol=1e-5, atol=1e-6)


def test_weights_lie_in_any_order_and_are_written_row_major(tmp_path: Path) -> None:
    model = torch.nn.Conv2d(2, 4, 3).to(memory_format=torch.channels_last)
    dynamo_export(torch.randn(1, 2, 5, 5), model=model, export_path=tmp_path)
    weight = next(value for name, value in constants(read(tmp_path / "export.air")).items() if "weight" in name)
    assert torch.equal(weight, model.weight) and weight.is_contiguous()


@pytest.mark.feature("11.20")
def test_large_weights_are_files_of_their_own(root: BareRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is that of protobuf, which a test has no room for."""
    monkeypatch.setattr(files, "MOST_INLINE_BYTES", 1000)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    x, folder = torch.randn(3, 16), root.files / "large"
    dynamo_export(x, model=model, export_path=folder)
    names = ["0_bias", "0_weight", "2_bias", "2_weight"]
    assert sorted(path.name for path in folder.iterdir()) == [*names, "dynamo.pbtxt", "export.air"]
    assert (folder / "0_weight").read_bytes() == model[0].weight.detach().numpy().tobytes()
    ops = [op for op in read(folder / "export.air").graph[0].op if op.type == "FileConstant"]
    assert sorted(op.attr["file_path"].s.decode() for op in ops) == names
    assert len((folder / "export.air").read_bytes()) < 16 * 16 * 4 * 8
    (result,) = root.run("large/export.air", [x])
    np.testing.assert_allclose(result, model(x).detach(), rtol=1e-5, atol=1e-6)


def test_outputs_that_the_file_does_not_have_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger.name):
        dynamo_export(torch.ones(3), model=lambda x: (x.view(3, 1), x + 1), export_path=tmp_path)
    assert "does not have outputs [0] of the graph" in caplog.text


@pytest.mark.feature("11.20")
def test_a_graph_break_is_an_error(tmp_path: Path) -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported):
        dynamo_export(torch.ones(3), model=broken, export_path=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.feature("11.20", "12b.13")
def test_symbolic_links_are_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ValueError, match=r"dynamo_export writes to no symbolic link, got '.*link'"):
        dynamo_export(torch.ones(3), model=torch.neg, export_path=tmp_path / "link")
    assert "dynamo_export writes to no symbolic link" in caplog.text
    (tmp_path / "real/export.air").symlink_to(tmp_path / "other")
    with pytest.raises(ValueError, match=r"got '.*export\.air'"):
        dynamo_export(torch.ones(3), model=torch.neg, export_path=tmp_path / "real")


@pytest.mark.feature("11.20")
def test_options_that_an_export_cannot_have(tmp_path: Path) -> None:
    frozen, other = CompilerConfig(), CompilerConfig()
    frozen.experimental_config.frozen_parameter = True
    other.mode = "npugraph_ex"
    for config, text in ((frozen, "frozen_parameter"), (other, "got a config with mode 'npugraph_ex'")):
        with pytest.raises(ValueError, match=text):
            dynamo_export(torch.ones(3), model=torch.neg, export_path=tmp_path, config=config)
    for name in ("", "a/b", None):
        with pytest.raises(ValueError, match="export_name is the name of a file without its directory"):
            dynamo_export(torch.ones(3), model=torch.neg, export_path=tmp_path, export_name=name)


def test_options_without_effect_are_named(tmp_path: Path) -> None:
    config = CompilerConfig()
    config.export.experimental.enable_lite_export = True
    with pytest.warns(UserWarning, match=r"export\.experimental\.enable_lite_export is recorded") as caught:
        dynamo_export(torch.ones(3), model=lambda x: x + 1, export_path=tmp_path, config=config)
    assert caught[0].filename == __file__


def test_all_missing_converters_are_named(tmp_path: Path) -> None:
    def odd(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.svdvals(x) + torch.special.bessel_j0(x[0])

    with pytest.raises(Exception, match=r"(?s)2 operators of graph 'export' cannot be converted.*bessel_j0") as caught:
        dynamo_export(torch.ones(3, 3), model=odd, export_path=tmp_path)
    assert isinstance(caught.value, MissingConverters) and "test_export.py" in str(caught.value)


def test_each_rank_has_files_of_its_own(tmp_path: Path) -> None:
    torch.distributed.init_process_group("fake", rank=1, world_size=2, store=FakeStore())
    try:
        dynamo_export(torch.ones(3), model=lambda x: x + 1, export_path=tmp_path)
    finally:
        torch.distributed.destroy_process_group()
    files = [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.*")]
    assert sorted(files) == ["export1.air", "rank_1/dynamo.pbtxt"]


@pytest.mark.feature("12b.12")
def test_calls_share_no_configuration(tmp_path: Path) -> None:
    config = CompilerConfig()
    dynamo_export(torch.ones(3), model=lambda x: x + 1, export_path=tmp_path, export_name="a", config=config)
    assert config.export.export_path_dir.value == "./" and config.export.export_mode.value is False


def test_numbers_are_inputs_and_results(root: BareRoot) -> None:
    def function(x: torch.Tensor, n: int) -> tuple[torch.Tensor, int, int, int]:
        return x * n, x.shape[0], x.shape[0] * n, 7

    dynamo_export(torch.randn(5, 4), 5, model=function, export_path=root.files, export_name="numbers", dynamic=True)
    model_def = read(root.files / "numbers.air")
    assert [op.type for op in inputs_of(model_def)] == ["Data"] * len(inputs_of(model_def))
    sources = [op.attr["_npugraph_source"].s.decode() for op in inputs_of(model_def)]
    assert "L['x']" in sources and len(sources) > 1
    x = torch.randn(6, 4)
    given = arguments_of(model_def, function, (x, 6), {})
    results = root.run("numbers.air", given)
    np.testing.assert_allclose(results[0], x * 6)
    assert [result.tolist() for result in results[1:]] == [6, 36]


def test_names_of_written_inputs_say_how_they_lie(tmp_path: Path) -> None:
    def function(x: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        cache.mul_(x)
        return cache + 1

    dynamo_export(torch.ones(3, 1), torch.ones(4, 3).t(), model=function, export_path=tmp_path)
    (written,) = [op for op in inputs_of(read(tmp_path / "export.air")) if op.type == "RefData"]
    assert written.name == "RefData_3_4_1_3_0_0"
    assert 'name: "RefData_3_4_1_3_0_0"' in (tmp_path / "dynamo.pbtxt").read_text()
