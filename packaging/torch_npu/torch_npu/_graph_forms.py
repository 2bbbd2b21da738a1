# SPDX-License-Identifier: Apache-2.0
"""Operators that return what they write, in graphs. Such an operator has a second form that returns nothing
(src/device/npu_ops/framework/operator_library.h). Graphs hold that form, and the written arguments stand for its
results."""

from collections.abc import Callable
from typing import Any

from torch._subclasses.fake_impls import register_op_impl
from torch._subclasses.functional_tensor import FunctionalTensorMode

from npugraph import _ascend as device
from torch_npu._operators import overload


def install() -> None:
    for row in device.operators():
        if not row.graph_form:
            continue
        op, form = overload(row.name), overload(row.graph_form)
        register_op_impl(form)(_fake(op))
        op.py_impl(FunctionalTensorMode)(_functional(op._schema, form))


def _fake(op: Any) -> Callable[..., None]:
    def call(mode: Any, _: Any, *args: Any, **kwargs: Any) -> None:
        with mode:
            op(*args, **kwargs)

    return call


def _functional(schema: Any, form: Any) -> Callable[..., Any]:
    names = [argument.name for argument in schema.arguments]
    results = _results(schema)

    def call(mode: FunctionalTensorMode, *args: Any, **kwargs: Any) -> Any:
        with mode:
            form(*args, **kwargs)
        given = dict(zip(names, args, strict=False)) | kwargs
        return tuple(given["out"]) if results is None else _one_or_all([given[name] for name in results])

    return call


def _results(schema: Any) -> list[str] | None:
    """Returns the names of the arguments that are the results, or None if the results are the tensors of the list
    ``out``."""
    written = {min(a.alias_info.before_set): a.name for a in schema.arguments if a.alias_info is not None}
    return [written[min(r.alias_info.before_set)] for r in schema.returns] if written else None


def _one_or_all(results: list[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)
