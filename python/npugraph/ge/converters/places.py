# SPDX-License-Identifier: Apache-2.0
"""Whether the user's operator can compute an operator of Ascend IR that its converter made.

The engine gives the inputs to the arguments of their names, or by their places if the names are others, and takes the
results in their order. A converter that gives arguments or results in another order would get wrong values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils import _pytree as pytree

from npugraph.fx.schema import is_tensor
from npugraph.ge.tensor import Tensor


def check_places(target: Any, op: Any, given: Mapping[str, Any], results: Sequence[Any]) -> None:
    """Raises ``NotImplementedError`` if the operator ``op`` of Ascend IR has arguments or results of the user's
    operator ``target`` in other places than that. ``given`` are the arguments of the call by name, ``results`` is what
    the converter returned."""
    arguments = [argument for argument in target._schema.arguments if is_tensor(argument)]
    tensors = {a.name: _names(given.get(a.name, a.default_value)) for a in arguments}
    if not {_stem(desc.name, tensors) for desc in op.input_desc} <= tensors.keys():
        in_order = [name for names in tensors.values() for name in names]
        inputs = [name for name in op.input if name]
        if any(name != wanted and name in in_order for name, wanted in zip(inputs, in_order, strict=False)):
            raise NotImplementedError(
                f"its converter gives {op.type} the arguments in another order than {target.name()} has them, so "
                f"that operator cannot compute it; name the inputs as the arguments: {', '.join(tensors)}"
            )
    written = {desc.name for desc in op.input_desc}
    new = [place for place, desc in enumerate(op.output_desc) if desc.name not in written]
    for result, place in zip(results, new, strict=False):
        if isinstance(result, Tensor) and result.node.name == op.name and result.index != place:
            raise NotImplementedError(
                f"its converter returns the outputs of {op.type} in another order than {op.type} has them, so that "
                f"{target.name()} cannot compute it"
            )


def _names(value: Any) -> list[str]:
    return [leaf.tensor for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _stem(name: str, arguments: Mapping[str, Any]) -> str:
    """The argument of which an input has the name; parts of a list are called x0, x1, ..."""
    return name if name in arguments else name.rstrip("0123456789")
