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
from torch_npu._operators import overload

from npugraph import _ascend as device

Call = tuple[Any, Any]
NAMESPACES = ("air", "atb", "npu")


@dataclasses.dataclass
class Cost:
    """The most bytes that a replay of an operator keeps and copies. ``forced``: copied bytes of new results."""

    calls: int = 0
    kept: int = 0
    copied: int = 0
    forced: int = 0

    def add(self, other: Cost) -> None:
        self.calls += other.calls
        self.kept = max(self.kept, other.kept)
        if other.copied > self.copied:
            self.copied, self.forced = other.copied, other.forced


# By the name of an operator, without its overload.
COSTS: dict[str, Cost] = {}
# Operators whose calls are not measured, and why.
NOT_MEASURED = {
    "npu._amp_foreach_non_finite_check": "its result is a bool of the host",
    "npu.npu_change_data_ptr": "it changes where a tensor lies, when it is captured",
    "npu.wrap_allgather_base_uneven_inner": "it needs other processes, as all of test_hccl",
    "npu.wrap_alltoallvc_inner": "it needs other processes, as all of test_hccl",
    "npu.wrap_batch_isend_irecv_inner": "it needs other processes, as all of test_hccl",
    "npu.wrap_reduce_scatter_base_uneven_inner": "it needs other processes, as all of test_hccl",
}


def operator_name(op: Any) -> str | None:
    """Returns a name such as ``npu.npu_rms_norm``, or None if ``op`` is no operator."""
    if isinstance(op, OpOverload):
        op = op.overloadpacket
    return op._qualified_op_name.replace("::", ".") if isinstance(op, OpOverloadPacket) else None


def all_names() -> set[str]:
    """Returns the names of the operators that have a kernel and take tensors."""
    schemas = [overload(row.name)._schema for row in device.operators() if row.computation != device.Computation.SIZES]
    return {schema.name.replace("::", ".") for schema in schemas if any(map(_is_tensor, schema.arguments))}


def _is_tensor(argument: Any) -> bool:
    return "Tensor" in str(argument.type)


def unmeasured() -> list[str]:
    return sorted(all_names() - COSTS.keys() - NOT_MEASURED.keys())


def add(name: str, cost: Cost) -> None:
    COSTS.setdefault(name, Cost()).add(cost)


def is_known(name: str) -> bool:
    return name in COSTS or name in NOT_MEASURED


def table() -> str:
    if not COSTS:
        return ""
    without = [name for name, cost in sorted(COSTS.items()) if cost.kept == cost.copied == 0]
    lines = [f"{'operator':<56}{'calls':>7}{'kept':>9}{'copied':>9}{'of which results':>18}"]
    for name, cost in sorted(COSTS.items()):
        if name not in without:
            lines.append(f"{name:<56}{cost.calls:>7}{cost.kept:>9}{cost.copied:>9}{cost.forced:>18}")
    lines.append(f"{len(without)} keep and copy nothing: {', '.join(without)}")
    lines += [f"{name}: not measured: {text}" for name, text in NOT_MEASURED.items()]
    left = unmeasured()
    lines.append(f"{len(left)} were not called: {', '.join(left)}")
    return "\n".join(lines)


def _is_real(value: Any) -> bool:
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.device.type in ("cpu", "npu")


@contextlib.contextmanager
def first_calls() -> Iterator[dict[str, tuple[Any, Call]]]:
    """Collects, for each operator that is not known yet, the first call outside of captures that does not raise.
    Arguments are copied to cpu, since tests count memory of npu."""
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
            copied = _copies((args, kwargs)) if wanted else None
            result = call(op, *args, **kwargs)
            if copied is not None:
                found.setdefault(name, (op, copied))
            return result

        return recorded

    with contextlib.ExitStack() as stack:
        for kind in (OpOverload, OpOverloadPacket):
            stack.enter_context(mock.patch.object(kind, "__call__", recording(kind.__call__)))
        yield found


def _copies(call: Call) -> Call | None:
    """Returns copies on cpu, or None while the host may not wait for the device, as in an update of a graph."""
    try:
        return pytree.tree_map_only(torch.Tensor, lambda x: x.detach().to("cpu", copy=True), call)
    except RuntimeError:
        return None
