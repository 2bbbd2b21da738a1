# SPDX-License-Identifier: Apache-2.0
"""Names of the public package, in the modules from which scripts import them."""

from __future__ import annotations

import importlib

import pytest
import torch

import torchair
from tests.python.forks import run_python
from tests.python.ge.import_lines import OF_TORCH_NPU, import_lines

PUBLIC = {
    "torchair.ge": "Cast Clone Const DataType Format Tensor TensorSpec attr custom_op",
    "torchair.ge.attr": (
        "Bool DataType Float Int Str ListBool ListDataType ListFloat ListInt ListStr ListListFloat ListListInt"
    ),
    "torchair.ge.ge_custom": "custom_op",
    "torchair.ge._ge_graph": (
        "DataType Format GeGraph Tensor TensorSpec TensorType auto_convert_to_tensor torch_dtype_value_to_ge_type"
    ),
    "torchair.core.backend": "TorchNpuGraph initialize_graph_engine",
    "torchair.core.concrete_graph": "ValuePack _is_symlist",
    "torchair._ge_concrete_graph.utils": "dtype_promote",
    "torchair._ge_concrete_graph.ge_ir_pb2": "ModelDef GraphDef OpDef TensorDescriptor TensorDef AttrDef DT_FLOAT",
    "torchair._ge_concrete_graph.ge_apis": "Add SoftmaxV2 Const Cast Data NetOutput",
    "torchair._ge_concrete_graph.ge_graph": "DataType Format GeGraph Tensor TensorSpec",
    "torchair.ge_concrete_graph.ge_ir_pb2": "ModelDef",
    "torchair.ge_concrete_graph.ge_apis": "Add",
    "torchair.ge_concrete_graph.ge_graph": "Tensor",
    "torchair.ge_concrete_graph.utils": "dtype_promote",
    "torchair._ge_concrete_graph.supported_declaration": "Support T _TypedTensor F32 BF16 I64 BOOL",
    "torchair.ge_concrete_graph.supported_declaration": "Support _TypedTensor F32",
    "torchair.ge_concrete_graph.fx2ge_converter": "GeConcreteGraph declare_supported register_fx_node_ge_converter",
    "torchair.inference": "cache_compile readable_cache set_dim_gears",
    "torchair.experimental.inference": (
        "cache_compile npu_format_cast_via_cpu readable_cache set_dim_gears use_internal_format_weight"
    ),
    "torchair.npu_export": "dynamo_export",
}
# Modules that a program may read as attributes after ``import torchair``.
MODULES = (
    "_acl_concrete_graph.fx2acl_converter",
    "_ge_concrete_graph.fx2ge_converter",
    "_ge_concrete_graph.ge_apis",
    "_ge_concrete_graph.ge_converter.experimental.patch_for_hcom_allreduce",
    "_ge_concrete_graph.ge_graph",
    "_ge_concrete_graph.ge_ir_pb2",
    "_ge_concrete_graph.supported_declaration",
    "_ge_concrete_graph.utils",
    "_torchair",
    "configs.compiler_config",
    "core._backend",
    "core._concrete_graph",
    "core._torchair",
    "core.backend",
    "core.concrete_graph",
    "core.utils",
    "experimental.inference",
    "ge._ge_graph",
    "ge.attr",
    "ge.ge_custom",
    "ge_concrete_graph.ge_apis",
    "ge_concrete_graph.ge_graph",
    "ge_concrete_graph.fx2ge_converter",
    "ge_concrete_graph.ge_ir_pb2",
    "npu_export",
    "npu_fx_compiler",
    "patterns.pattern_pass_manager",
    "tools.gegraph_check.align_trace",
    "tools.gegraph_check.deadlock_check",
    "tools.gegraph_check.filter_operators",
)


@pytest.mark.parametrize("module", PUBLIC)
def test_modules_have_their_names(module: str) -> None:
    imported = importlib.import_module(module)
    for name in PUBLIC[module].split():
        assert getattr(imported, name) is not None, name
    if module.startswith("torchair.ge_concrete_graph."):
        new = importlib.import_module(module.replace(".ge_concrete", "._ge_concrete"))
        assert all(getattr(imported, name) is getattr(new, name) for name in PUBLIC[module].split())


def test_lines_of_public_scripts_run() -> None:
    code = "\n".join(["import warnings", "warnings.simplefilter('error')", *import_lines()])
    run_python("-c", code, check=True)


def test_operators_of_torch_npu_need_it() -> None:
    for line in OF_TORCH_NPU:
        with pytest.raises(ImportError, match=r"custom_torch_ops needs torch_npu"):
            exec(line)


def test_the_package_is_cheap_to_import() -> None:
    code = "import sys, torchair; torchair.ge; assert 'google.protobuf' not in sys.modules"
    run_python("-c", code, check=True)


@pytest.mark.parametrize("module", MODULES)
def test_modules_are_attributes_of_their_packages(module: str) -> None:
    package = torchair
    for name in module.split("."):
        # Python itself makes attributes of modules that are imported, so the package is asked.
        package = package.__getattr__(name)
    assert package is importlib.import_module(f"torchair.{module}")


@pytest.mark.parametrize("package", ["torchair.ge_concrete_graph", "torchair._ge_concrete_graph"])
def test_the_patch_of_scripts_for_torch_2_1_can_be_imported(package: str) -> None:
    run_python("-c", f"import {package}.ge_converter.experimental.patch_for_hcom_allreduce", check=True)


def test_values_are_promoted_to_an_element_type() -> None:
    from torchair._ge_concrete_graph.utils import dtype_promote
    from torchair.ge._ge_graph import DataType, GeGraph, torch_dtype_value_to_ge_type

    with GeGraph() as graph:
        x = torchair.ge.Const([1, 2], dtype=DataType.DT_INT32)
        same, number = dtype_promote(x, 3, target_dtype=torch.int32)
        other = dtype_promote(x, target_dtype=torch_dtype_value_to_ge_type(6))
    assert same is x
    assert (number.dtype, other.dtype) == (DataType.DT_INT32, DataType.DT_FLOAT)
    assert [op.type for op in graph.op] == ["Const", "Const", "Cast"]
    with pytest.raises(RuntimeError, match=r"an element type is a member of torchair\.ge\.DataType"):
        dtype_promote(x, target_dtype="float")


def test_constants_become_tensors() -> None:
    from torchair._ge_concrete_graph import ge_apis as ge
    from torchair.ge._ge_graph import DataType, GeGraph, TensorType, auto_convert_to_tensor

    seen = []

    @auto_convert_to_tensor(
        [False, True, False, False],
        [False, False, True, True],
        inputs_tensor_type=[TensorType.TT_FLOATING, TensorType.TT_ALL, TensorType.TT_ALL, TensorType.TT_COMPLEX],
    )
    def MyOp(x, parts, bias=None, offset=None, *, axis=0, node_name=None):  # type: ignore[no-untyped-def]
        seen.append([x.dtype, [part.dtype for part in parts], bias, offset and offset.dtype, axis])
        return ge.AddN([x], N=1, node_name=node_name)

    with GeGraph() as graph:
        x = ge.Data(index=0, dtype=DataType.DT_FLOAT16, shape=[2], placement="CPU")
        MyOp(x, [x, 2], None, axis=3)
        MyOp(3, parts=[], offset=1.5, node_name="mine")
        for wrong in ((object(), []), (None, []), (x, x)):
            with pytest.raises(RuntimeError, match="of MyOp "):
                MyOp(*wrong)
    assert seen == [
        [DataType.DT_FLOAT16, [DataType.DT_FLOAT16, DataType.DT_INT64], None, None, 3],
        [DataType.DT_FLOAT, [], None, DataType.DT_COMPLEX64, 0],
    ]
    assert [op.name for op in graph.op if op.type == "AddN"] == ["AddN", "mine"]


def test_the_export_is_that_of_torchair() -> None:
    assert importlib.import_module("torchair.npu_export").dynamo_export is torchair.dynamo_export


@pytest.mark.feature("6.39")
def test_weights_on_cpu_have_no_internal_format() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 1, 1), torch.nn.Linear(2, 2))
    with pytest.raises(RuntimeError, match=r"'1\.weight' is on cpu: call model\.npu\(\) before"):
        torchair.use_internal_format_weight(model)
    with pytest.raises(RuntimeError, match="'weight' is on cpu"):
        torchair.use_internal_format_weight(model[1])
