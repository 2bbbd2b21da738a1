# SPDX-License-Identifier: Apache-2.0
"""Facts about operators that follow from their schemas."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from npugraph import host_device


@functools.cache
def is_view(operator: Any) -> bool:
    """Whether a result of ``operator``, an OpOverload, is a view of an argument that the operator does not write."""
    aliases = [result.alias_info for result in operator._schema.returns]
    return any(alias is not None and not alias.is_write for alias in aliases)


@functools.cache
def is_composite(target: Any) -> bool:
    """Whether ``target`` is made of other operators alone. In inference mode such operators arrive undecomposed."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    return isinstance(target, torch._ops.OpOverload) and torch._C._dispatch_has_kernel_for_dispatch_key(
        target.name(), key
    )


def is_foreach(target: Any) -> bool:
    """Whether ``target`` does the same to each tensor of a list."""
    return isinstance(target, torch._ops.OpOverload) and target.name().startswith("aten::_foreach_")


_ASCEND = ("npu", "atb")  # and "air", to which users add none
_names_of_ascend: set[str] = set()  # those of the device, since it is registered


def is_of_ascend(operator: Any) -> bool:
    """Whether ``operator`` is one of Ascend's operators, which are the same on cpu and npu. Users may add others to
    their namespaces."""
    if not isinstance(operator, torch._ops.OpOverload) or operator.namespace not in (*_ASCEND, "air"):
        return False
    return operator.name() in _all_of_ascend()


def add_of_ascend(form: Any) -> None:
    """Makes ``form``, another form of one of Ascend's operators, one of them."""
    _all_of_ascend().add(form.name())


def _all_of_ascend() -> set[str]:
    if not _names_of_ascend:
        for row in host_device.operators():
            _names_of_ascend.update(filter(None, (row.name, row.graph_form)))
    return _names_of_ascend


# Namespaces whose operators are those of torch, Ascend and npugraph.
BUILT_IN = frozenset(
    ("aten", "prim", "prims", "rngprims", "inductor", "quantized", "mkldnn", "onednn", "c10d", "_c10d_functional")
    + ("npu", "atb", "air", "streams", "npugraph", "npugraph_ex")
)


def is_of_user(target: Any) -> bool:
    """Whether ``target`` is an operator that the user or a package of theirs brings."""
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return target.namespace not in BUILT_IN or (target.namespace in _ASCEND and not is_of_ascend(target))


def is_mutable(target: Any) -> bool:
    """Whether ``target`` is an operator that writes arguments."""
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def arguments_by_name(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a call of ``operator``, an OpOverload, gives, without defaults."""
    names = (argument.name for argument in operator._schema.arguments)
    return dict(zip(names, args, strict=False)) | dict(kwargs)


def written_arguments(operator: Any) -> list[str]:
    """The names of the arguments that ``operator``, an OpOverload, writes."""
    aliases = ((argument.name, argument.alias_info) for argument in operator._schema.arguments)
    return [name for name, alias in aliases if alias is not None and alias.is_write]


def core_name(operator: Any) -> str:
    """The name of ``operator``, an OpOverload, in the core and in FX graphs: "my_ops.scaled_add"."""
    return operator.name().replace("::", ".")


def is_tensor(argument: Any) -> bool:
    """Whether an argument of a schema is a tensor, an optional one or a list of them."""
    return "Tensor" in str(argument.type)


# The classes of ``torchair.ge.attr`` that attributes of these types have; a number's class follows from its value.
_ATTRIBUTES = {
    **{"int": "Int", "SymInt": "Int", "float": "Float", "number": "Number", "bool": "Bool", "str": "Str"},
    **{"ScalarType": "DataType", "List[int]": "ListInt", "List[SymInt]": "ListInt", "List[float]": "ListFloat"},
    "List[bool]": "ListBool",
}


def attribute_kind(argument: Any) -> str:
    """The name of the class of ``torchair.ge.attr`` for an argument of a schema, or "Number"; "" if there is none."""
    text = str(argument.real_type)
    return _ATTRIBUTES.get(text[len("Optional[") : -1] if text.startswith("Optional[") else text, "")


def new_results(operator: Any) -> list[Any]:
    """The results of ``operator``, an OpOverload, that are new tensors, as its schema declares them."""
    return [result for result in operator._schema.returns if result.alias_info is None]


def new_tensors(operator: Any, results: Sequence[Any]) -> Sequence[Any]:
    """``results`` as what a call of ``operator``, an OpOverload, returns: none of them if it returns nothing."""
    return results if operator._schema.returns else ()


def listed(results: Any) -> list[Any]:
    """What a call returned as a list, which is empty for None."""
    return list(results) if isinstance(results, (tuple, list)) else [] if results is None else [results]


def names_of_results(operator: Any) -> list[str]:
    """A name for each new tensor that ``operator``, an OpOverload, makes. No argument has it."""
    arguments = {argument.name for argument in operator._schema.arguments}
    count = len(new_results(operator))
    names = ["y"] if count == 1 else [f"y{place}" for place in range(count)]
    return [f"result_{name}" if name in arguments else name for name in names]


def may_draw(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call of ``operator``, an OpOverload, may draw random numbers. Attention without dropout draws none."""
    if torch.Tag.nondeterministic_seeded not in operator.tags:
        return False
    defaults = {argument.name: argument.default_value for argument in operator._schema.arguments}
    return arguments_by_name(operator, args, kwargs).get("dropout_p", defaults.get("dropout_p")) != 0
