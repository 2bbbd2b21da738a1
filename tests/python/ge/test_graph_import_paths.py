# SPDX-License-Identifier: Apache-2.0
"""Names of the public package, in the modules from which scripts import them."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

PUBLIC = {
    "torchair.ge": "Cast Clone Const DataType Format Tensor TensorSpec attr custom_op",
    "torchair.ge.attr": (
        "Bool DataType Float Int Str ListBool ListDataType ListFloat ListInt ListStr ListListFloat ListListInt"
    ),
    "torchair.ge.ge_custom": "custom_op",
    "torchair.ge._ge_graph": "DataType Format GeGraph Tensor TensorSpec",
    "torchair._ge_concrete_graph.ge_ir_pb2": "ModelDef GraphDef OpDef TensorDescriptor TensorDef AttrDef DT_FLOAT",
    "torchair._ge_concrete_graph.ge_apis": "Add SoftmaxV2 Const Cast Data NetOutput",
    "torchair._ge_concrete_graph.ge_graph": "DataType Format GeGraph Tensor TensorSpec",
    "torchair.ge_concrete_graph.ge_ir_pb2": "ModelDef",
    "torchair.ge_concrete_graph.ge_apis": "Add",
    "torchair.ge_concrete_graph.ge_graph": "Tensor",
}


@pytest.mark.parametrize("module", PUBLIC)
def test_modules_have_their_names(module: str) -> None:
    imported = importlib.import_module(module)
    for name in PUBLIC[module].split():
        assert getattr(imported, name) is not None, name
    if module.startswith("torchair.ge_concrete_graph."):
        new = importlib.import_module(module.replace(".ge_concrete", "._ge_concrete"))
        assert all(getattr(imported, name) is getattr(new, name) for name in PUBLIC[module].split())


def test_the_package_is_cheap_to_import() -> None:
    code = "import sys, torchair; torchair.ge; assert 'google.protobuf' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
