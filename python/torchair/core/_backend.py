# SPDX-License-Identifier: Apache-2.0
"""The engine and its graphs, in the module from which scripts of Ascend import them."""

from npugraph.ge.backend.concrete_graph import initialize_graph_engine
from npugraph.ge.executor import TorchNpuGraph

__all__ = ["TorchNpuGraph", "initialize_graph_engine"]
