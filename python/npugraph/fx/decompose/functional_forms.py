# SPDX-License-Identifier: Apache-2.0
"""Functional forms of composed operators that write arguments -> the operators that they are composed of.

    r = auto_functionalized_v2(atb._npu_rotary_embedding, ..., _query_base_index=0, _all_bases=[q, ...])
    n = r[1]    ->    n = cat(sub(mul(q1, cos), mul(q2, sin)), ...)

The new values of the arguments are computed without writes, so the compiler fuses them with what reads them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.auto_functionalize import (
    auto_functionalized,
    auto_functionalized_v2,
    get_mutable_args,
    read_view_information_from_args,
)
from torch._library.utils import is_out
from torch.func import functionalize

from npugraph.fx.decompose.composed import is_composed, run_kernel
from npugraph.fx.decompose.parts import put_parts


def expand_functional_forms(gm: fx.GraphModule) -> None:
    """Replaces the functional forms of composed operators, in place. Those of other operators stay."""
    for node in list(gm.graph.nodes):
        if node.target not in (auto_functionalized, auto_functionalized_v2):
            continue
        op = node.args[0]
        if isinstance(op, torch._ops.OpOverload) and not is_out(op) and is_composed(op, (), node.kwargs):
            parts = _parts_of_bases if node.target is auto_functionalized_v2 else _parts
            put_parts(gm, node, functionalize(parts))


def _parts(op: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Returns what ``auto_functionalized`` returns: the results, and the new values of the arguments written."""
    written = {name: _copied(kwargs[name]) for name in get_mutable_args(op)[0]}
    return (*_results(run_kernel(op, **kwargs | written)), *written.values())


def _parts_of_bases(op: Any, *, _all_bases: list[Any], **kwargs: Any) -> tuple[Any, ...]:
    """Returns what ``auto_functionalized_v2`` returns: the results, and the new values of the bases of the arguments
    written."""
    views = read_view_information_from_args(*get_mutable_args(op), kwargs, _all_bases)
    bases = _copied(_all_bases)
    written = {name: _regenerated(view, bases) for name, view in views.items()}
    return (*_results(run_kernel(op, **kwargs | written)), *bases)


def _copied(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_copied(item) for item in value]
    return None if value is None else value.clone()


def _regenerated(view: Any, bases: list[Any]) -> Any:
    if isinstance(view, list):
        return [_regenerated(item, bases) for item in view]
    return None if view is None else view.regenerate_view(bases)


def _results(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)
