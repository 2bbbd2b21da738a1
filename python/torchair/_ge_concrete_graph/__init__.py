# SPDX-License-Identifier: Apache-2.0
from npugraph.facade import lazy_names, submodules

MODULES = ("fx2ge_converter", "ge_apis", "ge_converter", "ge_graph", "ge_ir_pb2", "supported_declaration", "utils")

__getattr__ = lazy_names(__name__, submodules(__name__, *MODULES))
