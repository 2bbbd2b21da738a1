# SPDX-License-Identifier: Apache-2.0
"""The modules of ``torchair._ge_concrete_graph``, under the name that it had before."""

from torchair import _ge_concrete_graph

__path__ = _ge_concrete_graph.__path__
