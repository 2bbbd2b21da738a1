# SPDX-License-Identifier: Apache-2.0
"""Bytes that a replay of each captured operator keeps and copies. The end of a run shows a table over all operators.

Checks of operators measure their calls (``captured_calls``). The first call of any other operator is measured when its
test ends (``conftest``).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.utils import _pytree as pytree

Call = tuple[Any, Any]
NAMESPACES = ("npu", "atb")


@dataclasses.dataclass
class Cost:
    """The most bytes of a replay, over all calls of an operator, and how many of these are results made anew."""

    calls: int = 0
    kept: int = 0
    copied: int = 0
    forced: int = 0

    def add(self, other: Cost) -> None:
        self.calls += other.calls
        self.kept = max(self.kept, other.kept)
        if other.copied > self.copied:
            self.copied, self.forced = other.copied, other.forced


# By name of an operator without its overload. Refused: what the capture of a call said.
COSTS: dict[str, Cost] = {}
REFUSED = {
    "npu.npu_change_data_ptr": "it changes where a tensor lies, when it is captured",
}


def operator_name(op: Any) -> str | None:
    """``npu.npu_rms_norm``; None of what is no operator."""
    if isinstance(op, OpOverload):
        op = op.overloadpacket
    return op._qualified_op_name.replace("::", ".") if isinstance(op, OpOverloadPacket) else None


def all_names() -> set[str]:
    schemas = torch._C._jit_get_all_schemas()
    return {s.name.replace("::", ".") for s in schemas if s.name.split("::")[0] in NAMESPACES}


def add(name: str, cost: Cost) -> None:
    COSTS.setdefault(name, Cost()).add(cost)


def is_known(name: str) -> bool:
    return name in COSTS or name in REFUSED


def table() -> str:
    if not COSTS:
        return ""
    without = [name for name, cost in sorted(COSTS.items()) if cost.kept == cost.copied == 0]
    lines = [f"{'operator':<56}{'calls':>7}{'kept':>9}{'copied':>9}{'of which results':>18}"]
    for name, cost in sorted(COSTS.items()):
        if name not in without:
            lines.append(f"{name:<56}{cost.calls:>7}{cost.kept:>9}{cost.copied:>9}{cost.forced:>18}")
    lines.append(f"{len(without)} keep and copy nothing: {', '.join(without)}")
    refused = {name: text for name, text in sorted(REFUSED.items()) if name not in COSTS}
    lines += [f"{name}: not in a captured graph: {text}" for name, text in refused.items()]
    left = sorted(all_names() - COSTS.keys() - refused.keys())
    lines.append(f"{len(left)} were not called: {', '.join(left)}")
    return "\n".join(lines)


def _is_real(value: Any) -> bool:
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.device.type in ("cpu", "npu")


@contextlib.contextmanager
def first_calls() -> Iterator[dict[str, tuple[Any, Call]]]:
    """The first call outside of captures of each operator that is not known and that does not raise, with copies of the
    arguments on cpu: tests count memory of npu."""
    found: dict[str, tuple[Any, Call]] = {}

    def recording(call: Any) -> Any:
        def recorded(op: Any, /, *args: Any, **kwargs: Any) -> Any:
            name = operator_name(op)
            wanted = (
                name is not None
                and name.split(".")[0] in NAMESPACES
                and name not in found
                and not is_known(name)
                and torch._C._len_torch_dispatch_stack() == 0
                and any(map(_is_real, pytree.tree_leaves((args, kwargs))))
                and not torch.npu.is_current_stream_capturing()
            )
            copied = pytree.tree_map_only(torch.Tensor, _copy, (args, kwargs)) if wanted else None
            result = call(op, *args, **kwargs)
            if wanted:
                found.setdefault(name, (op, copied))
            return result

        return recorded

    with contextlib.ExitStack() as stack:
        for kind in (OpOverload, OpOverloadPacket):
            stack.enter_context(mock.patch.object(kind, "__call__", recording(kind.__call__)))
        yield found


def _copy(x: torch.Tensor) -> torch.Tensor:
    return x.detach().to("cpu", copy=True)
