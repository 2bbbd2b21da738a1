# SPDX-License-Identifier: Apache-2.0
"""The built-in replacement rules, one file for each family. A family is registered when a graph first has its
operators."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Iterable
from typing import Any

# The module of each family, and the operators that all rules of the family have. Families are tried in this order.
FAMILIES: tuple[tuple[str, frozenset[str]], ...] = (
    ("add_rms_norm_dynamic_quant", frozenset({"npu::npu_add_rms_norm", "npu::npu_dynamic_quant"})),
    (
        "add_rms_norm_flatten_dynamic_quant",
        frozenset({"npu::npu_add_rms_norm", "npu::npu_dynamic_quant", "aten::view"}),
    ),
    ("add_rms_norm_cast", frozenset({"npu::npu_add_rms_norm"})),
    ("bmm_transpose", frozenset({"aten::bmm", "aten::transpose"})),
    ("add_rms_norm_quantize", frozenset({"npu::npu_add_rms_norm", "npu::npu_quantize"})),
)


def load_for(targets: Iterable[Any]) -> None:
    """Registers the families whose operators are all among ``targets``. All families need operators of torch_npu."""
    if "torch_npu" not in sys.modules:
        return
    names = {target._schema.name for target in targets if hasattr(target, "_schema")}
    for family, operators in FAMILIES:
        if operators <= names:
            load(family)


def load_all() -> None:
    """Registers all families, if torch_npu is imported."""
    if "torch_npu" in sys.modules:
        for family, _ in FAMILIES:
            load(family)


@functools.cache
def load(family: str) -> None:
    """Registers a family. Does nothing after the first time."""
    importlib.import_module(f"npugraph.fx.passes.patterns.{family}").register()
