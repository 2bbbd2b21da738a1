# SPDX-License-Identifier: Apache-2.0
"""The modules of ``torchair._ge_concrete_graph``, under the name that it had before."""

from npugraph.facade import lazy_names, submodules
from torchair import _ge_concrete_graph

__path__ = _ge_concrete_graph.__path__
__getattr__ = lazy_names(__name__, submodules(__name__, *_ge_concrete_graph.MODULES))
