# SPDX-License-Identifier: Apache-2.0
"""Graphs and tensors, in the module from which scripts of Ascend import them."""

from npugraph.ge.builders import TensorType, auto_convert_to_tensor
from npugraph.ge.data_types import DataType, Format, ProtoDataType, TensorSpec
from npugraph.ge.data_types import of_scalar_type as torch_dtype_value_to_ge_type
from npugraph.ge.graph import GeGraph, Tensor, current_graph

__all__ = [
    "DataType",
    "Format",
    "GeGraph",
    "ProtoDataType",
    "Tensor",
    "TensorSpec",
    "TensorType",
    "auto_convert_to_tensor",
    "current_graph",
    "torch_dtype_value_to_ge_type",
]
