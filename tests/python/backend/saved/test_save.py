# SPDX-License-Identifier: Apache-2.0
"""A saved Program runs in npugraph-run, without Python and torch, and in a process with torch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy
import pytest
import torch

import npugraph
from tests.python.backend.checks import assert_same, compile_ex

RUN = Path(__file__).parents[4] / "build/release/bin/npugraph-run"


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def scaled(x, y):
    """A function whose Program needs no torch, has a constant, and reads at an offset that depends on a symbolic
    size."""
    return x[-2:] * torch.tensor([0.5, 2.0, -1.0, 3.0]) + y, (x[-1] - y).neg()


def arguments_of_call(rows: int) -> dict[str, torch.Tensor]:
    return {"x": torch.randn(rows, 4), "y": torch.randn(2, 4)}


def saved(folder: Path, **options) -> tuple[npugraph.Artifact, Path]:
    given = arguments_of_call(3)
    torch._dynamo.mark_dynamic(given["x"], 0)
    compile_ex(scaled, options=options)(**given)
    (artifact,) = npugraph.artifacts()
    path = folder / "scaled.program"
    artifact.save(path)
    return artifact, path


def run(*arguments) -> subprocess.CompletedProcess:
    return subprocess.run([RUN, *map(str, arguments)], capture_output=True, text=True, check=False)


def inputs_of(artifact: npugraph.Artifact, given: dict[str, torch.Tensor]) -> list[torch.Tensor | int]:
    """Returns the inputs of the Program for this call, in the Program's order: tensors, and the number of rows."""
    sources = [(is_tensor is not None, source) for is_tensor, _, source in artifact._core.graph("import").inputs()]
    by_source = {f"L['{name}']": tensor for name, tensor in given.items()}
    return [by_source[source] if is_tensor else len(given["x"]) for is_tensor, source in sources]


@pytest.mark.parametrize("generate", [False, True])
def test_npugraph_run_gives_what_eager_gives(tmp_path, generate) -> None:
    artifact, path = saved(tmp_path, generate_code=generate)
    assert {task.kind for task in artifact.tasks} == {"loop" if generate else "kernel"}
    assert "constant" in artifact.program()
    assert "symbol" in artifact.program()
    for rows in (3, 7):
        given = arguments_of_call(rows)
        arguments = []
        for index, value in enumerate(inputs_of(artifact, given)):
            if isinstance(value, torch.Tensor):
                numpy.save(tmp_path / f"in{index}.npy", value.numpy())
                value = tmp_path / f"in{index}.npy"
            arguments += ["-i", value]
        outputs = [tmp_path / "a.npy", tmp_path / "b.npy"]
        done = run(path, *arguments, "-o", outputs[0], "-o", outputs[1])
        assert done.returncode == 0, done.stderr
        for output, want in zip(outputs, scaled(**given), strict=True):
            assert torch.equal(torch.from_numpy(numpy.load(output)), want)


def test_npugraph_run_links_neither_python_nor_torch() -> None:
    printed = subprocess.run(["ldd", RUN], capture_output=True, text=True, check=True).stdout
    linked = [line.split()[0] for line in printed.splitlines()]  # names without addresses
    assert any("libc.so" in name for name in linked)
    for foreign in ("python", "torch", "c10"):
        assert not any(foreign in name for name in linked)


def test_a_damaged_file(tmp_path) -> None:
    _, path = saved(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    message = f"cannot load a Program from {path}: it is damaged: the checksum does not match"
    done = run(path)
    assert done.returncode != 0
    assert done.stderr == f"npugraph-run: {message}\n"
    with pytest.raises(ValueError) as caught:
        npugraph.load(path)
    assert str(caught.value) == message
    path.write_bytes(whole[:100])
    with pytest.raises(ValueError, match=f"it is damaged: 100 bytes where there should be {len(whole)}"):
        npugraph.load(path)
    path.write_bytes(b"nothing of ours" * 10)
    with pytest.raises(ValueError, match="it is not a saved Program"):
        npugraph.load(path)


def test_tasks_that_need_torch(tmp_path) -> None:
    compile_ex(lambda x: torch.logaddexp(x, x) + 1)(torch.ones(3))
    path = tmp_path / "logaddexp.ngp"
    npugraph.artifacts()[0].save(path)
    numpy.save(tmp_path / "x.npy", numpy.ones(3, dtype=numpy.float32))
    done = run(path, "-i", tmp_path / "x.npy")
    assert done.returncode != 0
    assert "this process has no torch and cannot run aten.logaddexp" in done.stderr
    x = torch.randn(3)
    (result,) = npugraph.load(path)([x])
    assert_same(result, torch.logaddexp(x, x) + 1)


def distances(x, y):
    return torch.softmax(x, -1), torch.logaddexp(x, y), torch.linalg.matrix_exp(x) + 1


def test_torch_free(tmp_path) -> None:
    """A softmax of few elements is faster as an operator of torch."""
    x = torch.randn(4, 5)
    compile_ex(lambda x: torch.softmax(x, -1))(x)
    artifact, path = npugraph.artifacts()[-1], tmp_path / "softmax.ngp"
    assert {task.kind for task in artifact.tasks} == {"aten"}
    artifact.save(path, torch_free=True)
    numpy.save(tmp_path / "x.npy", x.numpy())
    done = run(path, "-i", tmp_path / "x.npy", "-o", tmp_path / "y.npy")
    assert done.returncode == 0, done.stderr
    want = torch.softmax(x, -1)
    torch.testing.assert_close(torch.from_numpy(numpy.load(tmp_path / "y.npy")), want)
    torch.testing.assert_close(npugraph.load(path)([x])[0], want)
    npugraph.load(path)  # it has no graph any more, but needs no torch either


def test_torch_free_names_all_that_needs_torch(tmp_path) -> None:
    compile_ex(distances)(torch.randn(4, 4), torch.randn(4, 4))
    path = tmp_path / "distances.ngp"
    with pytest.raises(ValueError, match="needs torch for 2 operators:") as caught:
        npugraph.artifacts()[-1].save(path, torch_free=True)
    _, *lines = str(caught.value).splitlines()
    place = f"({__file__}:{distances.__code__.co_firstlineno + 1} in distances)"
    assert len(lines) == 2
    assert lines[0].startswith("  aten.logaddexp"), lines
    assert lines[1].startswith("  aten.linalg_matrix_exp"), lines
    for line in lines:
        assert f"{place}: no generated code for this operator" in line
    assert not path.exists()


def test_load_runs_what_was_saved(tmp_path) -> None:
    artifact, path = saved(tmp_path)
    loaded = npugraph.load(path)
    for rows in (3, 5):
        given = arguments_of_call(rows)
        assert_same(list(loaded(inputs_of(artifact, given))), list(scaled(**given)))


class Scale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(4))

    def forward(self, x):
        return x * self.weight


def test_a_loaded_program_names_its_inputs(tmp_path) -> None:
    model, x = Scale(), torch.randn(3, 4)
    compile_ex(model, options={"name": "scale"})(x)
    path = tmp_path / "scale.ngp"
    npugraph.artifacts()[0].save(path)
    loaded = npugraph.load(path)
    given = {"L['x']: f32[3, 4]": x, "L['self']._parameters['weight']: f32[4], of the model": model.weight}
    assert sorted(loaded.inputs) == sorted(given)
    assert loaded.name == "scale"
    assert repr(loaded) == f"<npugraph.SavedProgram scale: {', '.join(loaded.inputs)}>"
    wanted = "".join(f"\n  input {i} {text}" for i, text in enumerate(loaded.inputs))
    with pytest.raises(ValueError) as caught:
        loaded([x])
    assert str(caught.value) == f"scale takes 2 inputs, got 1; they are:{wanted}"
    with pytest.raises(TypeError) as caught:
        loaded(x)
    assert str(caught.value) == f"scale takes one list with its inputs, got Tensor; they are:{wanted}"
    inputs = tuple(given[text] for text in loaded.inputs)
    assert_same(loaded(inputs)[0], model(x))
    as_list = list(inputs)
    loaded(as_list)
    assert len(as_list) == 2
    done = run(path)
    assert done.returncode == 1
    assert "input 0 (L[" in done.stderr
    assert "f32[4], of the model" in done.stderr


def test_a_wrong_command_line() -> None:
    for tool, wrong in ((RUN, "--inptu"), (RUN.with_name("npugraph-opt"), "--pases=cse")):
        done = subprocess.run([tool, "x", wrong], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith(f"{tool.name}: ")
        assert wrong in done.stderr


def test_npugraph_opt_says_an_error_once() -> None:
    tool = RUN.with_name("npugraph-opt")
    done = subprocess.run([tool], input="npugraph.graph 2 @a {", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("version 2 of the text form") == 1


def with_library(schema: str):
    library = torch.library.Library("save_tests", "DEF")
    library.define(schema)
    library.impl("twice", lambda x, *rest: x * 2, "CPU")
    return library


def test_an_operator_whose_schema_changed(tmp_path) -> None:
    library = with_library("twice(Tensor x) -> Tensor")
    torch.library.register_fake("save_tests::twice", lambda x: torch.empty_like(x), lib=library)
    path = tmp_path / "twice.ngp"
    compile_ex(lambda x: torch.ops.save_tests.twice(x) + 1)(torch.ones(3))
    npugraph.artifacts()[0].save(path)
    assert_same(npugraph.load(path)([torch.ones(3)])[0], torch.full((3,), 3.0))
    npugraph.reset()
    library._destroy()
    with pytest.raises(ValueError, match=r"torch has no operator save_tests\.twice"):
        npugraph.load(path)
    library = with_library("twice(Tensor x, int n=2) -> Tensor")
    with pytest.raises(ValueError) as caught:
        npugraph.load(path)
    assert str(caught.value) == (
        "the Program was made for the operator save_tests::twice(Tensor x) -> Tensor; "
        "in this process it is save_tests::twice(Tensor x, int n=2) -> Tensor"
    )
    library._destroy()


def test_a_file_that_cannot_be_opened(tmp_path) -> None:
    missing = tmp_path / "missing.ngp"
    with pytest.raises(FileNotFoundError) as caught:
        npugraph.load(missing)
    assert caught.value.filename == str(missing)
    with pytest.raises(IsADirectoryError):
        npugraph.load(tmp_path)


def test_what_cannot_be_saved(tmp_path) -> None:
    path = tmp_path / "cond.ngp"
    with pytest.warns(npugraph.NpugraphWarning, match="cond"):
        compile_ex(lambda x: torch.cond((x.sum() > 0).float(), lambda t: t.sin(), lambda t: t.cos(), (x,)) + 1)(
            torch.ones(3)
        )
    (artifact,) = npugraph.artifacts()
    with pytest.raises(ValueError, match=r"cannot save .*: task \d+ 'python\.cond' calls Python, for node cond"):
        artifact.save(path)
    assert not path.exists()
    compile_ex(lambda x: x + 1)(torch.ones(3))
    with pytest.raises(FileNotFoundError) as caught:
        npugraph.artifacts()[-1].save(tmp_path / "missing" / "program.ngp")
    assert caught.value.filename == str(tmp_path / "missing")
