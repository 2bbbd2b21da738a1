# SPDX-License-Identifier: Apache-2.0
"""Autocast on cpu with the operator lists that torch has for devices, in place of its lists for cpu.

Torch's header says which operators run in which dtype. It is read directly, so that the lists do not depend on how npu
registers these operators.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

_HEADER = Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
_LISTS = ("LOWER_PRECISION_FP", "FP32", "FP32_SET_OPT_DTYPE", "PROMOTE")


def lists_of_devices() -> dict[str, set[str]]:
    """Returns names of operators ("aten::mm", "aten::sum.dim_IntList") by the list that they are in."""
    text = _HEADER.read_text()
    found = {}
    for name in _LISTS:
        rows = re.search(rf"#define AT_FORALL_{name}\(_\)((?:[^\n]*\\\n)+[^\n]*)", text)[1]
        pairs = re.findall(r"_\((\w+)(?:, (\w+))?\)", rows)
        found[name] = {f"aten::{op}.{overload}" if overload else f"aten::{op}" for op, overload in pairs}
    return found


def registered(key: str) -> set[str]:
    """Returns the operators that have a kernel of the dispatch key ``key``."""
    return {name for name in torch._C._dispatch_get_registrations_for_dispatch_key(key) if name.startswith("aten::")}


def _is_cast(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64


def _cast_all(op: Any, choose: Callable[[list[torch.dtype]], torch.dtype]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        types = [one.dtype for one in pytree.tree_leaves((args, kwargs)) if _is_cast(one)]
        with torch.autocast("cpu", enabled=False):
            if types:
                dtype = choose(types)
                args, kwargs = pytree.tree_map(lambda one: one.to(dtype) if _is_cast(one) else one, (args, kwargs))
            return op(*args, **kwargs)

    return call


def _widest(types: list[torch.dtype]) -> torch.dtype:
    return torch.float32 if torch.float32 in types else types[0]


def _with_type(op: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        names = [one.name for one in op._schema.arguments]
        given = dict(zip(names, args, strict=False)) | kwargs
        with torch.autocast("cpu", enabled=False):
            if _is_cast(args[0]) and given.get("dtype") is None:
                given["dtype"] = torch.float32
            return op(**given)

    return call


def _kernel(name: str, kind: str) -> Callable[..., Any]:
    packet, _, overload = name.removeprefix("aten::").partition(".")
    op = getattr(getattr(torch.ops.aten, packet), overload or "default")
    if kind == "LOWER_PRECISION_FP":
        return _cast_all(op, lambda _: torch.get_autocast_dtype("cpu"))
    if kind == "FP32":
        return _cast_all(op, lambda _: torch.float32)
    return _with_type(op) if kind == "FP32_SET_OPT_DTYPE" else _cast_all(op, _widest)


@contextlib.contextmanager
def lists_of_devices_on_cpu() -> Iterator[None]:
    """Context manager in which ``torch.autocast("cpu")`` uses the lists of devices."""
    kinds = {name: kind for kind, names in lists_of_devices().items() for name in names}
    with torch.library._scoped_library("aten", "IMPL") as library, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="(?s).*Overriding a previously registered kernel")
        for name in registered("AutocastCPU") - set(kinds):
            library.impl(name, torch.library.fallthrough_kernel, "AutocastCPU")
        for name, kind in kinds.items():
            library.impl(name, _kernel(name, kind), "AutocastCPU")
        yield
