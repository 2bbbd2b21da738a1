# SPDX-License-Identifier: Apache-2.0
"""Operators that a YAML file of Ascend's op-plugin describes. An entry says the schema, the kernel, and the sizes and
types of the results, so nothing is generated: the operator is defined when the file is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml

from npugraph import _C
from npugraph.log import logger
from npugraph.op_plugin_expressions import dtype_of, size_of


def load_op_plugin(path: str | os.PathLike[str], namespace: str = "npu") -> list[str]:
    """Defines the operators of the list ``custom`` of a YAML file in a namespace of torch: their schemas, their Meta
    functions from ``size`` and ``dtype`` of ``gen_opapi``, and as their kernels those that ``exec`` names, which
    ``npugraph.load_library`` has loaded before. Eager mode and graphs then run the kernels as if the libraries had them
    under these names. Loading a file again does nothing.

    Of an entry without ``gen_opapi``, whose functions are written by hand, only the schema is defined, and a warning
    says so.

    Returns the schemas of the operators with kernels. Raises ``ValueError``, which names the entry, if it is incomplete
    or says what cannot be followed, if no kernel fits, and if the operator has a kernel already."""
    try:
        described = yaml.safe_load(Path(path).read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"'{os.fspath(path)}' is no YAML file: {error}") from None
    entries = described.get("custom") if isinstance(described, dict) else None
    if not isinstance(entries, list):
        raise ValueError(f"'{os.fspath(path)}' has no list `custom`, whose entries describe operators")
    schemas = []
    for entry in entries:
        name = entry.get("func") if isinstance(entry, dict) else None
        try:
            if not isinstance(name, str):
                raise ValueError("it has no `func`, the schema of the operator")
            if schema := _load(entry, entries, namespace):
                schemas.append(schema)
        except ValueError as error:
            raise ValueError(f"the entry {name or entry!r} of '{os.fspath(path)}': {error}") from None
    return schemas


def _load(entry: dict[str, Any], entries: Sequence[Any], namespace: str) -> str | None:
    text = f"{namespace}::{entry['func']}"
    try:
        schema = torch._C.parse_schema(text)
    except RuntimeError as error:
        raise ValueError(f"`func` is no schema: {error}") from None
    described = _described(entry, entries)
    if described is None:
        _define(schema, text)
        return None
    _check_fields(described)
    results = _results(schema, described)
    function = _function(schema, described)
    _check_is_free(schema, function)
    new = sum(result.alias_info is None for result in schema.returns)
    _C.add_operator(text, function, len(schema.arguments) + new)
    if _name(schema) not in _loaded and schema.returns:
        torch.library.register_fake(_name(schema), _meta_function(schema, results))
    _loaded[_name(schema)] = (str(schema), function)
    return text


# From the operators that have been loaded to schema and function.
_loaded: dict[str, tuple[str, str]] = {}
# Definitions end with their library.
_definitions: list[torch.library.Library] = []


def _name(schema: torch._C.FunctionSchema) -> str:
    return schema.name + (f".{schema.overload_name}" if schema.overload_name else "")


def _is_defined(schema: torch._C.FunctionSchema) -> bool:
    try:
        torch._C._dispatch_find_schema_or_throw(schema.name, schema.overload_name)
    except RuntimeError:
        return False
    return True


def _define(schema: torch._C.FunctionSchema, text: str) -> None:
    name = _name(schema)
    namespace, _, local = text.partition("::")
    if not _is_defined(schema):
        library = torch.library.Library(namespace, "FRAGMENT")
        library.define(local, tags=(torch.Tag.pt2_compliant_tag,))
        _definitions.append(library)
    logger.warning(
        f"{name} has no gen_opapi: its functions are written by hand. The schema is defined; TORCH_LIBRARY_IMPL or "
        f'torch.library.impl add the functions for "PrivateUse1" and "Meta".'
    )


def _described(entry: dict[str, Any], entries: Sequence[Any]) -> dict[str, Any] | None:
    """The ``gen_opapi`` of an entry. One with ``structured_inherit`` has that of another entry."""
    described = entry.get("gen_opapi")
    if described is None:
        return None
    if not isinstance(described, dict):
        raise ValueError("`gen_opapi` has fields: `out`, with `size` and `dtype`, and `exec`")
    parent = described.get("structured_inherit")
    if parent is None:
        return described
    for other in entries:
        if isinstance(other, dict) and str(other.get("func", "")).partition("(")[0].strip() == parent:
            inherited = _described(other, [e for e in entries if e is not entry]) or {}
            return inherited | {key: value for key, value in described.items() if key != "structured_inherit"}
    raise ValueError(f"`structured_inherit` names {parent!r}, and no other entry describes that operator")


def _check_fields(described: Mapping[str, Any]) -> None:
    unknown = [key for key in described if key != "exec" and not key.startswith("out")]
    if unknown:
        raise ValueError(
            f"`gen_opapi` has `{unknown[0]}`, which is not supported; supported are `out`, `out0`, `out1`, ..., `exec` "
            "and `structured_inherit`. Remove gen_opapi and write the operator by hand"
        )


def _function(schema: torch._C.FunctionSchema, described: Mapping[str, Any]) -> str:
    """The function of ``exec``. Its arguments may follow, but only in the order in which they are passed anyway."""
    parts = [part.strip() for part in str(described.get("exec", "")).split(",")]
    if not parts[0]:
        raise ValueError("`gen_opapi` has no `exec`, the name of the kernel's function: aclnnScaledAdd for scaled_add")
    names = [argument.name for argument in schema.arguments]
    names += [key for key in described if key != "exec" and key not in names]
    if parts[1:] not in ([], names):
        raise ValueError(
            f"`exec` passes ({', '.join(parts[1:])}); the kernel is called with ({', '.join(names)}), the arguments of "
            "the schema and then the results. Remove gen_opapi and write the operator by hand"
        )
    return parts[0]


def _check_is_free(schema: torch._C.FunctionSchema, function: str) -> None:
    name = _name(schema)
    if name in _loaded:
        if _loaded[name] != (str(schema), function):
            raise ValueError(f"{name} is loaded already, with the schema {_loaded[name][0]} and {_loaded[name][1]}")
        return
    keys = ("CPU", "PrivateUse1", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
    if torch._C._dispatch_has_kernel(name) and any(
        torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys
    ):
        raise ValueError(f"{name} has a kernel already; load_op_plugin(path, namespace=...) takes another namespace")


class _Result(NamedTuple):
    """How a new tensor follows from the values of the arguments, by name."""

    size: Callable[[Mapping[str, Any]], Sequence[int]]
    dtype: Callable[[Mapping[str, Any]], torch.dtype]


def _results(schema: torch._C.FunctionSchema, described: Mapping[str, Any]) -> list[_Result]:
    """The new results in order. ``out`` of an argument that is written says nothing new."""
    names = {argument.name: str(argument.type) for argument in schema.arguments}
    outs = {key: value for key, value in described.items() if key.startswith("out") and key not in names}
    expected = sum(result.alias_info is None for result in schema.returns)
    if len(outs) != expected:
        wanted = "`out`" if expected == 1 else ", ".join(f"`out{i}`" for i in range(expected)) or "none"
        raise ValueError(
            f"`gen_opapi` describes {len(outs)} new results, and the schema has {expected}; they are {wanted}"
        )
    results = []
    for key, out in outs.items():
        if not isinstance(out, dict) or not all(isinstance(out.get(field), str) for field in ("size", "dtype")):
            raise ValueError(f"`{key}` needs `size` and `dtype` as texts; quote a size that begins with a brace")
        try:
            results.append(_Result(size_of(out["size"], names), dtype_of(out["dtype"], names)))
        except ValueError as error:
            raise ValueError(f"`{key}`: {error}") from None
    return results


def _meta_function(schema: torch._C.FunctionSchema, results: Sequence[_Result]) -> Callable[..., Any]:
    def meta(*args: Any, **kwargs: Any) -> Any:
        values = {argument.name: argument.default_value for argument in schema.arguments}
        values |= dict(zip(values, args, strict=False)) | kwargs
        like = _first_tensor(values.values())
        new = iter([like.new_empty(result.size(values), dtype=result.dtype(values)) for result in results])
        returned = tuple(
            next(new) if result.alias_info is None else values[_written_as(schema, result)] for result in schema.returns
        )
        return returned if len(returned) > 1 else returned[0]

    return meta


def _first_tensor(values: Any) -> torch.Tensor:
    for value in values:
        if isinstance(value, torch.Tensor):
            return value
        if isinstance(value, (list, tuple)) and value and isinstance(value[0], torch.Tensor):
            return value[0]
    raise ValueError("no argument is a tensor, so nothing says on which device the results are")


def _written_as(schema: torch._C.FunctionSchema, result: Any) -> str:
    """The name of the argument that a result is."""
    return next(
        argument.name
        for argument in schema.arguments
        if argument.alias_info is not None and argument.alias_info.before_set == result.alias_info.before_set
    )
