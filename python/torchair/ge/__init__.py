# SPDX-License-Identifier: Apache-2.0
"""Builders of operators in GE graphs, for converters that users write."""

from npugraph.facade import lazy_names, submodules

__all__ = ["Cast", "Clone", "Const", "DataType", "Format", "Tensor", "TensorSpec", "attr", "custom_op"]

__getattr__ = lazy_names(
    "torchair.ge",
    {
        **submodules("torchair.ge", "_ge_graph", "attr", "ge_custom"),
        "Cast": "npugraph.ge.builders",
        "Clone": "npugraph.ge.builders",
        "Const": "npugraph.ge.const",
        "DataType": "npugraph.ge.data_types",
        "Format": "npugraph.ge.data_types",
        "Tensor": "npugraph.ge.graph",
        "TensorSpec": "npugraph.ge.data_types",
        "custom_op": "npugraph.ge.builders",
    },
)


def __dir__() -> list[str]:
    return __all__
