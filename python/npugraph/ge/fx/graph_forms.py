# SPDX-License-Identifier: Apache-2.0
"""Operators of Ascend that write arguments, whole in graphs. torch takes such an operator apart before a graph sees it
if the operator returns what it writes, or if its schema does not say what it writes. So it gets a second form, which
returns new tensors alone and whose schema says what it writes, as ``ascend_writes`` knows it:

    npu::npu_mla_prolog_in_graphs(..., Tensor(a!) kv_cache, Tensor(b!) kr_cache, ...) -> (Tensor, Tensor)

The functional form of an operator becomes the operator on copies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._C import DispatchKey
from torch._subclasses.fake_impls import register_op_impl
from torch.utils import _pytree as pytree

from npugraph import host_device
from npugraph.fx.schema import add_of_ascend, arguments_by_name, is_composite, listed
from npugraph.ge.converters import ascend_writes

Rule = Callable[..., Any]
# Their results have the values that they write, and are new tensors.
_RETURN_COPIES = {"npu.npu_apply_rotary_pos_emb.default"}

_library = torch.library.Library("npu", "FRAGMENT")
_rules: dict[Any, Rule] = {}
_kernels: dict[Any, Rule] = {}
_forms: dict[Any, Any] = {}


def rules() -> Mapping[Any, Rule]:
    """For operators that torch would take apart, functions that call second forms and return the same. Calls that are
    differentiated are taken apart by these functions, too."""
    if not _rules and host_device.operators():
        for text in ascend_writes.ROWS:
            _add_rules(text.partition(":")[0])
    return _rules


def form_of(op: Any) -> Any:
    """The second form of an operator, or the operator itself if it has none."""
    rules()
    return _forms.get(op, op)


def kernel_of(target: Any) -> Rule | None:
    """For a second form, a function of its arguments that calls its parts; None for any other operator."""
    return _kernels.get(target)


def _add_rules(target: str) -> None:
    results = ascend_writes.results_of(ascend_writes.row_of(target))
    _, name, overload = target.split(".")
    op = getattr(getattr(torch.ops.npu, name), overload)
    if is_composite(op):
        _rules[op] = _rule(op, _form(target, op, results), results, target in _RETURN_COPIES)
    functional = name.removesuffix("_") if name.endswith("_") else f"{name}_functional"
    packet = getattr(torch.ops.npu, functional, None)
    if packet is not None and is_composite(packet.default):
        _rules[packet.default] = _functional_rule(packet.default, op, list(filter(None, results)))


def _form(target: str, op: Any, results: Sequence[str]) -> Any:
    written = [argument for argument in results if argument]
    schema = re.sub(r"\(\w!\)", "", str(op._schema)).rpartition(" -> ")[0]
    for letter, argument in zip("abcdefgh", written, strict=False):
        schema = re.sub(rf"\bTensor {argument}\b", f"Tensor({letter}!) {argument}", schema)
    name = ascend_writes.form_name(target).split(".")[1]
    schema = schema.removeprefix("npu::").replace(op._schema.name.removeprefix("npu::"), name, 1)
    _library.define(f"{schema} -> ({', '.join('Tensor' for argument in results if not argument)})")
    form = getattr(torch.ops.npu, name).default

    def kernel(*args: Any, **kwargs: Any) -> Any:
        made = listed(_call_parts(op, *args, **kwargs))
        returned = _returned(op, results)
        return _one_or_all([result for result, argument in zip(made, returned, strict=True) if not argument])

    def fake(mode: Any, _: Any, *args: Any, **kwargs: Any) -> Any:
        with mode:
            return kernel(*args, **kwargs)

    _library.impl(name, kernel, "CompositeExplicitAutograd")
    register_op_impl(form)(fake)
    add_of_ascend(form)
    _kernels[form], _forms[op] = kernel, form
    return form


def _returned(op: Any, results: Sequence[str]) -> Sequence[str]:
    """Those of ``results`` that the operator returns: all of them, or new tensors alone."""
    returns_all = len(op._schema.returns) == len(results)
    return results if returns_all else [argument for argument in results if not argument]


def _rule(op: Any, form: Any, results: Sequence[str], returns_copies: bool) -> Rule:
    def call(*args: Any, **kwargs: Any) -> Any:
        if _is_differentiated(args, kwargs):
            return _call_parts(op, *args, **kwargs)
        new = iter(listed(form(*args, **kwargs)))
        given = arguments_by_name(op, args, kwargs)
        made = [given[argument] if argument else next(new) for argument in _returned(op, results)]
        return _one_or_all([result.clone() for result in made] if returns_copies else made)

    return call


def _functional_rule(functional: Any, op: Any, written: Sequence[str]) -> Rule:
    def call(*args: Any, **kwargs: Any) -> Any:
        if _is_differentiated(args, kwargs):
            return _call_parts(functional, *args, **kwargs)
        given = arguments_by_name(functional, args, kwargs)
        copies = {argument: given[argument].clone() for argument in written}
        made = listed(op(**given | copies))
        new = made[: len(functional._schema.returns) - len(copies)]
        return _one_or_all([*new, *copies.values()])

    return call


def _call_parts(op: Any, *args: Any, **kwargs: Any) -> Any:
    with torch._C.DisableTorchFunction():  # a mode would get the operator without the key of its kernel
        return op._op_dk(DispatchKey.CompositeImplicitAutograd, *args, **kwargs)


def _is_differentiated(args: Any, kwargs: Any) -> bool:
    leaves = pytree.tree_leaves((args, kwargs))
    return torch.is_grad_enabled() and any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves)


def _one_or_all(results: Sequence[Any]) -> Any:
    return tuple(results) if len(results) > 1 else results[0] if results else None
