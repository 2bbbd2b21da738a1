# SPDX-License-Identifier: Apache-2.0
"""Fake results that lie in the memory of an argument although the schema says that they are new tensors."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils import _pytree as pytree

from npugraph.fx.schema import is_of_user
from npugraph.fx.strides import is_strided


def with_own_memory(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], results: Any) -> Any:
    """Returns the fake ``results`` of a call of an operator of the user. Those that are new tensors by the schema, and
    yet lie in the memory of an argument, are replaced by tensors like them. Meta functions that return their argument
    are common (``lambda x: x`` for "a tensor like x"), and the schema is right about what the graph may rely on."""
    if not is_of_user(func):
        return results
    given = {
        tensor.untyped_storage()._cdata for tensor in pytree.tree_leaves((args, dict(kwargs))) if is_strided(tensor)
    }
    if not given:
        return results
    declared = func._schema.returns
    if not isinstance(results, (tuple, list)) or len(results) != len(declared) or len(declared) == 1:
        return _fresh(results, given, declared[0]) if declared else results
    fresh = [_fresh(value, given, item) for value, item in zip(results, declared, strict=True)]
    return _unless_same(results, fresh)


def _fresh(value: Any, given: set[int], declared: Any) -> Any:
    if declared.alias_info is not None:
        return value
    if isinstance(value, (tuple, list)):
        return _unless_same(value, [_fresh(item, given, declared) for item in value])
    if not is_strided(value) or value.untyped_storage()._cdata not in given:
        return value
    return value.new_empty_strided(value.shape, value.stride())


def _unless_same(values: Any, fresh: list[Any]) -> Any:
    """``values``, or a sequence of their type with ``fresh`` values if one of these is another."""
    return values if all(map(operator.is_, values, fresh)) else type(values)(fresh)
