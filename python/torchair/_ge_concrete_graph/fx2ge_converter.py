# SPDX-License-Identifier: Apache-2.0
"""Compiled graphs and their converters, in the module from which scripts of Ascend import them."""

from npugraph.ge.backend.concrete_graph import GeConcreteGraph
from npugraph.ge.backend.declared_calls import declare_supported
from npugraph.ge.backend.user_converters import register_fx_node_ge_converter

__all__ = ["GeConcreteGraph", "declare_supported", "register_fx_node_ge_converter"]
