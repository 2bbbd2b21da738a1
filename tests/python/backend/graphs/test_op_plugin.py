# SPDX-License-Identifier: Apache-2.0
"""Operators that YAML entries of op-plugin describe, on cpu. The kernels are those of
tests/unit/core/libraries/sample_kernels.cc."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import npugraph
import tests.python.sample_kernels  # noqa: F401  (loads the kernels)
from npugraph.ge.backend.npu_backend import get_npu_backend
from npugraph.ge.config import CompilerConfig
from npugraph.op_plugin_expressions import dtype_of, size_of
from tests.python.backend.checks import check_captured, task_names

ENTRIES = """
custom:
  - func: plugin_add(Tensor x, Tensor y, float scale=1.0) -> Tensor
    op_api: all_version
    gen_opapi:
      out:
        size: x
        dtype: x
      exec: aclnnScaledAdd
  - func: plugin_add.out(Tensor x, Tensor y, float scale=1.0, *, Tensor(a!) out) -> Tensor(a!)
    op_api: all_version
    gen_opapi:
      structured_inherit: plugin_add
  - func: plugin_scale_(Tensor(a!) self, Scalar factor) -> ()
    op_api: all_version
    gen_opapi:
      exec: aclnnInplaceScale
  - func: plugin_all(Tensor x, Tensor? y, Tensor[] list, int number, SymInt[] numbers, float? fraction, bool flag, str
      text, ScalarType dtype) -> (Tensor, Tensor)
    gen_opapi:
      out0:
        size: '{1}'
        dtype: x
      out1:
        size: '{x.size(0) / x.size(0)}'
        dtype: at::kLong
      exec: aclnnEverything, x, y, list, number, numbers, fraction, flag, text, dtype, out0, out1
"""


@pytest.fixture(scope="module")
def ops(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("plugin") / "functions.yaml"
    path.write_text(ENTRIES)
    schemas = npugraph.load_op_plugin(path, namespace="test_plugin")
    assert [schema.partition("(")[0] for schema in schemas] == [
        "test_plugin::plugin_add",
        "test_plugin::plugin_add.out",
        "test_plugin::plugin_scale_",
        "test_plugin::plugin_all",
    ]
    assert npugraph.load_op_plugin(path, namespace="test_plugin") == schemas
    return torch.ops.test_plugin


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


def test_operators_run_in_eager_mode(ops) -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert ops.plugin_add(x, x).equal(2 * x)
    assert ops.plugin_add(x, x, scale=2).equal(3 * x)
    out = torch.empty(2, 3)
    assert ops.plugin_add(x, x, 2.0, out=out) is out
    assert out.equal(3 * x)
    ops.plugin_scale_(out, 2)
    assert out.equal(6 * x)


def test_results_have_the_sizes_and_types_that_the_entry_says(ops) -> None:
    x = torch.ones(4)
    total, count = ops.plugin_all(x, None, [x], 1, [2], None, False, "", torch.float32)
    assert (total.dtype, count.dtype) == (torch.float32, torch.int64)
    assert (total.item(), count.item()) == (1 + 1 + 1 + 2 + 8, 9)
    meta = ops.plugin_all(x.to("meta"), None, [], 1, [2], None, False, "", torch.float32)
    assert [result.shape for result in meta] == [(1,), (1,)]


@pytest.mark.feature("7.02", "12e.6")
@pytest.mark.parametrize("dynamic", [False, True])
def test_graphs_run_the_kernels(ops, dynamic: bool) -> None:
    def fn(x):
        y = ops.plugin_add(x * 2, x, 0.5) + 1
        ops.plugin_scale_(y, 2.0)
        return y

    sizes = (6, 7) if dynamic else (6,)
    (artifact,) = check_captured(fn, *(lambda size=size: (torch.randn(size),) for size in sizes), dynamic=dynamic)
    kernels = {task.name: task.kind for task in artifact.tasks if task.name.startswith("test_plugin.")}
    assert kernels == {"test_plugin.plugin_add": "kernel", "test_plugin.plugin_scale_": "kernel"}
    assert len(task_names(artifact)) <= 4
    assert artifact.memory["copied_bytes_per_replay"] == 0


@pytest.mark.feature("7.02")
def test_ge_mode_runs_the_kernels(ops) -> None:
    config = CompilerConfig()
    config.debug.missing_converters = "error"
    npugraph.reset()
    fast = torch.compile(lambda x: ops.plugin_add(x * 2, x, 0.5) + 1, backend=get_npu_backend(compiler_config=config))
    x = torch.randn(6)
    torch.testing.assert_close(fast(x), 2.5 * x + 1)
    (artifact,) = npugraph.artifacts()
    assert "test_plugin.plugin_add" in task_names(artifact)


def test_an_entry_without_a_description_is_defined_and_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "functions.yaml"
    path.write_text("custom:\n  - func: by_hand(Tensor x) -> Tensor\n    op_api: all_version\n")
    assert npugraph.load_op_plugin(path, namespace="test_plugin") == []
    assert "test_plugin::by_hand has no gen_opapi: its functions are written by hand" in caplog.text
    torch.library.impl("test_plugin::by_hand", "CPU", lambda x: x + 1)
    assert torch.ops.test_plugin.by_hand(torch.ones(1)).item() == 2


ADD = "func: f(Tensor x, Tensor y, float scale) -> Tensor"
OUT = "out: {size: x, dtype: x}"


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ("op_api: all_version", "it has no `func`"),
        ("func: f(Tensor x -> Tensor", "`func` is no schema"),
        (f"{ADD}\n    gen_opapi: {{{OUT}, exec: aclnnMissing}}", "operator NAMESPACE::missing, and no library that is"),
        (f"{ADD}\n    gen_opapi: {{{OUT}}}", "`gen_opapi` has no `exec`"),
        (
            f"{ADD}\n    gen_opapi: {{exec: aclnnScaledAdd}}",
            "describes 0 new results, and the schema has 1; they are `ou",
        ),
        (
            f"{ADD}\n    gen_opapi: {{out: {{size: z, dtype: x}}, exec: aclnnScaledAdd}}",
            "`out`: the size z is not known",
        ),
        (
            f"{ADD}\n    gen_opapi: {{out: {{size: x, dtype: z}}, exec: aclnnScaledAdd}}",
            "the dtype z is neither an arg",
        ),
        (f"{ADD}\n    gen_opapi: {{out: {{size: x}}, exec: aclnnScaledAdd}}", "needs `size` and `dtype` as texts"),
        (
            f"{ADD}\n    gen_opapi: {{{OUT}, exec: 'aclnnScaledAdd, y, x, scale, out'}}",
            r"`exec` passes \(y, x, scale, out",
        ),
        (
            f"{ADD}\n    gen_opapi: {{{OUT}, new_params: 1, exec: aclnnScaledAdd}}",
            "`new_params`, which is not supported",
        ),
        (f"{ADD}\n    gen_opapi: {{structured_inherit: g}}", "names 'g', and no other entry"),
        (
            f"func: f(Tensor x, Tensor y, int scale) -> Tensor\n    gen_opapi: {{{OUT}, exec: aclnnScaledAdd}}",
            "does not fit the schema test_plugin::f",
        ),
    ],
)
def test_an_entry_that_cannot_be_followed_is_named(tmp_path: Path, entry: str, error: str) -> None:
    path = tmp_path / "functions.yaml"
    path.write_text(f"custom:\n  - {entry}\n")
    with pytest.raises(ValueError, match=error) as raised:
        npugraph.load_op_plugin(path, namespace="test_plugin")
    assert str(path) in str(raised.value)


@pytest.mark.parametrize(("text", "error"), [("official: []", "has no list `custom`"), ("{", "is no YAML file")])
def test_a_file_without_entries_is_refused(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "functions.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=error):
        npugraph.load_op_plugin(path)


def test_an_operator_with_a_kernel_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "functions.yaml"
    schema = torch.ops.test_ops.reversed.default._schema
    path.write_text(
        f"custom:\n  - func: {str(schema).removeprefix('test_ops::')}\n    gen_opapi: {{{OUT}, exec: aclnnReversed}}"
    )
    with pytest.raises(ValueError, match=r"test_ops::reversed has a kernel already; .* another namespace"):
        npugraph.load_op_plugin(path, namespace="test_ops")


TYPES = {"x": "Tensor", "y": "Tensor", "dims": "List[int]", "keep": "bool", "n": "int", "t": "Optional[int]"}
VALUES = {
    **{"x": torch.empty(2, 3, dtype=torch.float16), "y": torch.empty(4, 1, 3)},
    **{"dims": [-1], "keep": True, "n": 7, "t": torch.int8},
}


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("x", [2, 3]),
        ("dims", [-1]),
        ("y.sizes()", [4, 1, 3]),
        ("{x.size(0), y.size(-1) * 2 + n, x.numel() / 4, x.dim() - 1}", [2, 13, 1, 1]),
        ("{}", []),
        ("broadcast_ops_npu_output_size(x, y)", [4, 2, 3]),
        ("op_infer::broadcast_ops_npu_output_size(x.sizes(), {2, 1})", [2, 3]),
        ("reduce_ops_npu_output_size(x, dims, keep)", [2, 1]),
        ("reduce_ops_npu_output_size(x, {0}, false)", [3]),
        ("input_same_output_size(y)", [4, 1, 3]),
    ],
)
def test_expressions_for_sizes_are_evaluated(text: str, sizes: list[int]) -> None:
    assert list(size_of(text, TYPES)(VALUES)) == sizes


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("x", torch.float16), ("y.scalar_type()", torch.float32), ("t", torch.int8), ("at::kInt", torch.int32)]
    + [("at::ScalarType::Bool", torch.bool), ("c10::kBFloat16", torch.bfloat16)],
)
def test_expressions_for_types_are_evaluated(text: str, dtype: torch.dtype) -> None:
    assert dtype_of(text, TYPES)(VALUES) == dtype


@pytest.mark.parametrize(
    ("translate", "text"),
    [(size_of, "x.size(0) > 1 ? x : y"), (size_of, "__import__('os')"), (size_of, "x.data_ptr()"), (size_of, "keep")]
    + [(dtype_of, "at::kUnknown"), (dtype_of, "z")],
)
def test_other_expressions_are_refused(translate: Callable[..., object], text: str) -> None:
    with pytest.raises(ValueError, match=r"is not known|is neither|no tensor and no list"):
        translate(text, TYPES)
