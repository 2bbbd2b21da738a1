# SPDX-License-Identifier: Apache-2.0
from npugraph.facade import lazy_names, submodules

_MODULES = ("_backend", "_concrete_graph", "_torchair", "backend", "concrete_graph", "utils")

__getattr__ = lazy_names(__name__, submodules(__name__, *_MODULES))
