# SPDX-License-Identifier: Apache-2.0
"""Exported models run in a root directory that has ``npugraph-run`` and the libraries of C alone, with the bits of GE
mode in this process. So do they without attributes that only npugraph knows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from benchmarks.model_case import flatten_outputs
from benchmarks.models import CASES
from benchmarks.special_models import SPECIAL
from npugraph.ge.backend.npu_backend import get_npu_backend
from npugraph.ge.export import dynamo_export
from tests.python.ge.air_runner import BareRoot, arguments_of, inputs_of, read, stripped

# The program is that of the release build, whose kernels round as those of no other build.
pytestmark = [pytest.mark.feature("6.47", "12e.8"), pytest.mark.no_sanitizer]

MODELS = {
    "bert": CASES["bert"],
    "resnet": CASES["resnet"],
    "llama prefill": CASES["llama"],
    "llama decode": SPECIAL["smollm2 decode"],
}
SIZES = ["tiny", pytest.param("base", marks=pytest.mark.long)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> BareRoot:
    return BareRoot(tmp_path_factory.mktemp("bare"))


@pytest.fixture(autouse=True)
def no_grad() -> Iterator[None]:
    with torch.no_grad():
        yield


@functools.cache
def model_of(name: str, size: str) -> torch.nn.Module:
    return MODELS[name].build(size)


def compiled(model: Callable[..., Any], **how: Any) -> Callable[..., list[torch.Tensor]]:
    """GE mode in this process. The function returns the tensors of the results."""
    torch._dynamo.reset()
    fast = torch.compile(model, backend=get_npu_backend(), fullgraph=True, **how)
    return lambda **inputs: flatten_outputs(fast(**inputs))


def assert_same_bits(files: list[Any], tensors: list[torch.Tensor]) -> None:
    """Compares results. Dynamo has those of a graph in an order of its own."""
    assert sorted((array.shape, array.tobytes()) for array in files) == sorted(
        (tuple(tensor.shape), tensor.contiguous().numpy().tobytes()) for tensor in tensors
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", MODELS)
def test_a_process_without_python_gives_the_same_bits(name: str, size: str, root: BareRoot) -> None:
    model, case = model_of(name, size), MODELS[name]
    dynamo_export(model=model, export_path=root.files, export_name="whole", **case.inputs(2, size))
    whole = read(root.files / "whole.air")
    given = arguments_of(whole, model, (), case.inputs(2, size))
    (root.files / "bare.air").write_bytes(stripped(whole).SerializeToString())
    expected = compiled(model)(**case.inputs(2, size))
    assert_same_bits(root.run("whole.air", given), expected)
    assert_same_bits(root.run("bare.air", given), expected)


@pytest.mark.parametrize(
    ("name", "batches"),
    [
        pytest.param("bert", (2, 3), marks=pytest.mark.long),
        pytest.param("llama prefill", (2, 3), marks=pytest.mark.long),
        ("llama decode", (2,)),
    ],
)
def test_names_of_unknown_sizes_are_not_needed(name: str, batches: tuple[int, ...], root: BareRoot) -> None:
    """Without the attributes that name and bound them, sizes follow from the operators that read the inputs."""
    model, case = model_of(name, "tiny"), MODELS[name]
    dynamo_export(model=model, export_path=root.files, export_name="whole", dynamic=True, **case.inputs(2))
    whole = read(root.files / "whole.air")
    (root.files / "bare.air").write_bytes(stripped(whole).SerializeToString())
    fast = compiled(model, dynamic=True)
    for batch in batches:
        given = arguments_of(whole, model, (), case.inputs(batch))
        assert_same_bits(root.run("bare.air", given), fast(**case.inputs(batch)))


def test_a_file_without_our_attributes_has_unknown_sizes(root: BareRoot) -> None:
    """One compile of the engine takes squares of any number and size."""
    model, case = model_of("resnet", "tiny"), MODELS["resnet"]
    dynamo_export(model=model, export_path=root.files, export_name="whole", dynamic=True, **case.inputs(2))
    whole = read(root.files / "whole.air")
    assert [list(op.output_desc[0].shape.dim) for op in inputs_of(whole)] == [[-1, 3, -1, -1]]
    (root.files / "bare.air").write_bytes(stripped(whole).SerializeToString())
    fast = compiled(model, dynamic=True)
    for size in ((2, 3, 64, 64), (5, 3, 96, 96), (4, 3, 32, 32)):
        pixels = torch.randn(size)
        expected = fast(pixel_values=pixels)
        assert_same_bits(root.run("whole.air", [pixels]), expected)
        assert_same_bits(root.run("bare.air", [pixels]), expected)


def convolved(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.max_pool2d(x * 2 + 1, 2).relu()


def outer(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a[:, None] * b[None] + 1


@pytest.mark.parametrize(
    ("model", "equal", "others"),
    [
        (convolved, [(8, 8, 8, 8)], [[(3, 8, 8, 12)], [(2, 3, 12, 8)]]),
        (outer, [(8, 8), (8, 8)], [[(3, 8), (5, 8)], [(8, 4), (3, 4)]]),
    ],
)
def test_sizes_that_only_happen_to_be_equal_are_apart(
    model: Callable[..., Any], equal: list[Any], others: list[list[Any]], root: BareRoot
) -> None:
    dynamo_export(*map(torch.randn, equal), model=model, export_path=root.files, export_name="apart", dynamic=True)
    for sizes in (equal, *others):
        given = [torch.randn(size) for size in sizes]
        (result,) = root.run("apart.air", given)
        torch.testing.assert_close(torch.from_numpy(result), model(*given))
