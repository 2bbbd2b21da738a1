# SPDX-License-Identifier: Apache-2.0
"""Gears: the sizes that a dimension of an input may have. One compile serves all of them, and each has a plan of its
own."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch._dynamo import config as dynamo_config
from torch._dynamo.decorators import mark_unbacked
from torch._dynamo.exc import ShortenTraceback
from torch._dynamo.symbolic_convert import InstructionTranslator

from npugraph import ascend_findings
from npugraph.ascend_findings import Finding

_ATTRIBUTE = "_torchair_dim_gears"
_MOST = 100  # gears of a dimension, and combinations of a graph


class GearsError(ShortenTraceback, AssertionError, ValueError):
    """Gears that are not allowed, or a size that is none of them. torch.compile hands it to the user as it is."""

    def __init__(self, text: str) -> None:
        super().__init__(text, first_useful_frame=None)


def set_dim_gears(t: torch.Tensor, dim_gears: Mapping[int, Sequence[int]]) -> None:
    """Says which sizes dimensions of ``t`` may have, 2 to 100 for each, before a compile with ``dynamic=True`` and
    ``fullgraph=True`` in which it is an input. Calls with other sizes are errors then. Inputs of later calls need no
    gears of their own. A program whose gears include 1 must not ask for the value of such a size. Raises
    ``GearsError``, which is an ``AssertionError`` and a ``ValueError``, for what is not allowed, and for other gears
    than the tensor has."""
    if not isinstance(t, torch.Tensor):
        raise GearsError(f"set_dim_gears takes a tensor, got {t!r} ({type(t).__name__})")
    if not isinstance(dim_gears, Mapping) or not dim_gears:
        raise GearsError(f"set_dim_gears takes a dict of dimensions and their gears, got {dim_gears!r}")
    for dim, gears in dim_gears.items():
        _check(t, dim, gears)
    if t.device.type == "npu" and torch.ops.npu.get_npu_format(t) not in _PLAIN_FORMATS:
        raise GearsError("a tensor with an internal format of npu has no gears")
    given = {dim: tuple(gears) for dim, gears in dim_gears.items()}
    known = getattr(t, _ATTRIBUTE, given)
    if known != given:
        raise GearsError(f"the tensor has the gears {known} already, which hold for its life; got {given}")
    setattr(t, _ATTRIBUTE, given)
    if ascend_findings.are_wanted():
        ascend_findings.add([Finding(ascend_findings.place_of_caller(), text) for text in _not_on_ascend(t, given)])
    for dim, gears in given.items():
        if 1 in gears:  # Dynamo makes a graph of its own for a size of 1 that it knows
            mark_unbacked(t, dim)


def _not_on_ascend(t: torch.Tensor, gears: Mapping[int, Sequence[int]]) -> list[str]:
    texts = [f"dimension {dim} has the gear 1, and gears are 2 or more" for dim in gears if 1 in gears[dim]]
    return texts + ["a tensor of cpu has gears, and only tensors of npu have them"] * (t.device.type == "cpu")


_PLAIN_FORMATS = (-1, 0, 1, 2, 27, 30, 35, 47)  # UNDEFINED, NCHW, NHWC, ND, NDHWC, NCDHW, NC, NCL


def _check(t: torch.Tensor, dim: Any, gears: Any) -> None:
    if type(dim) is not int or not 0 <= dim < t.dim():
        raise GearsError(f"a dimension of a tensor with {t.dim()} of them is an int from 0 on, got {dim!r}")
    if not isinstance(gears, (list, tuple)) or not all(type(gear) is int for gear in gears):
        raise GearsError(f"gears are a list or a tuple of ints, got {gears!r} for dimension {dim}")
    if not 2 <= len(gears) <= _MOST:
        raise GearsError(f"a dimension has 2 to {_MOST} gears, got {len(gears)} for dimension {dim}")
    if min(gears) < 1:
        raise GearsError(f"gears are sizes of 1 or more, got {min(gears)} for dimension {dim}")


def combinations(gears: Sequence[Sequence[int]], policy: str) -> list[tuple[int, ...]]:
    """Returns the different sizes that several dimensions have together: their gears in pairs ("zip"), or each with
    each ("product"). Raises ``GearsError`` for pairs of lists of different lengths, and for more than 100
    combinations."""
    lengths = [len(of_dim) for of_dim in gears]
    if policy == "zip" and len(set(lengths)) > 1:
        raise GearsError(
            f"dimensions have {', '.join(map(str, lengths))} gears; with inference_config.dynamic_gears_merge_policy "
            "'zip' each has as many as the others, 'product' takes all combinations"
        )
    merged = zip(*gears, strict=True) if policy == "zip" else itertools.product(*gears)
    found: dict[tuple[int, ...], None] = {}
    for combination in merged:
        found[combination] = None
        if len(found) > _MOST:
            raise GearsError(
                f"gears of {len(gears)} dimensions have more than {_MOST} combinations with "
                f"inference_config.dynamic_gears_merge_policy {policy!r}"
            )
    return list(found)


# The gears of dimensions of an input, each with the size that the input has.
Noted = Mapping[int, tuple[tuple[int, ...], int]]


def of_inputs(inputs: Sequence[Any]) -> dict[int, Noted]:
    """Returns the gears of the inputs of Dynamo's graph, by position. Raises ``GearsError`` if the compile is not one
    with ``dynamic=True`` and ``fullgraph=True``."""
    found = {
        place: {dim: (of_dim, value.size(dim)) for dim, of_dim in gears.items()}
        for place, value in enumerate(inputs)
        if (gears := getattr(value, _ATTRIBUTE, None))
    }
    if found and dynamo_config.assume_static_by_default:
        raise GearsError("gears need torch.compile(..., dynamic=True)")
    if found and not _is_fullgraph():
        raise GearsError("gears need torch.compile(..., fullgraph=True)")
    return found


def _is_fullgraph() -> bool:
    try:
        return InstructionTranslator.current_tx().one_graph
    except AttributeError:  # Dynamo has ended: it was asked for one graph alone
        return True


@dataclasses.dataclass(frozen=True)
class Gears:
    """The combinations of sizes that a graph is for. ``symbols`` are the sizes, and ``sources`` names each for
    people."""

    symbols: tuple[sympy.Expr, ...]
    sources: tuple[str, ...]
    combinations: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(placeholders: Sequence[fx.Node], noted: Mapping[int, Noted], policy: str) -> Gears | None:
        """The gears of a graph of Dynamo, of whose inputs ``of_inputs`` noted them. None if there are none. Raises
        ``GearsError`` if the inputs have other sizes, if the graph has no symbols for these, and for what
        ``combinations`` refuses."""
        known: dict[sympy.Expr, tuple[str, tuple[int, ...]]] = {}
        given: list[int] = []
        for place, dims in noted.items():
            node = placeholders[place]
            for dim, (gears, given_size) in dims.items():
                size = node.meta["example_value"].size(dim)
                source = f"size {dim} of {_name(node)}"
                if not isinstance(size, torch.SymInt) or not size.node.expr.is_Symbol:
                    raise GearsError(f"{source} has gears, and the program takes no other size than {size}")
                if size.node.expr not in known:
                    given.append(given_size)
                if known.setdefault(size.node.expr, (source, gears))[1] != gears:
                    text = f"{source} has the gears {gears}, and it is also {known[size.node.expr][0]}"
                    raise GearsError(f"{text}, which has the gears {known[size.node.expr][1]}")
        if not known:
            return None
        merged = combinations([gears for _, gears in known.values()], policy)
        made = Gears(tuple(known), tuple(source for source, _ in known.values()), tuple(merged))
        if tuple(given) not in merged:
            raise GearsError(made._text_of(tuple(given)))
        return made

    def drop_assertions(self, graph: fx.Graph) -> None:
        """Removes assertions of sizes that hold for each combination, in place."""
        dropped = [
            node
            for node in graph.find_nodes(op="call_function", target=torch.ops.aten._assert_scalar.default)
            if isinstance(node.args[0], fx.Node) and self._always_holds(node.args[0].meta.get("val"))
        ]
        for node in dropped:
            graph.erase_node(node)
        if dropped:
            graph.eliminate_dead_code()

    def _always_holds(self, value: Any) -> bool:
        if not isinstance(value, torch.SymBool):
            return value is True
        replaced = (dict(zip(self.symbols, sizes, strict=True)) for sizes in self.combinations)
        return all(value.node.expr.subs(sizes) == sympy.true for sizes in replaced)

    def checked(self, run: Callable[..., Any], placeholders: Sequence[fx.Node], *, boxed: bool) -> Callable[..., Any]:
        """Returns ``run``, the function of a graph with these placeholders, for calls with sizes of a combination.
        Other sizes are a ``GearsError``."""
        places = self.places([node.meta.get("val") for node in placeholders])
        if places is None:
            return run
        allowed = frozenset(self.combinations)

        def check(inputs: Sequence[Any]) -> None:
            sizes = tuple(inputs[place].size(dim) if dim >= 0 else inputs[place] for place, dim in places)
            if sizes not in allowed:
                raise GearsError(self._text_of(sizes))

        def call_boxed(inputs: list[Any]) -> Any:
            check(inputs)
            return run(inputs)

        def call(*inputs: Any) -> Any:
            check(inputs)
            return run(*inputs)

        return call_boxed if boxed else call

    def places(self, values: Sequence[Any]) -> list[tuple[int, int]] | None:
        """Where each size is among inputs, given what is known of them: an input and a dimension, which is -1 if the
        input is the size. None if a size is nowhere."""
        found: dict[sympy.Expr, tuple[int, int]] = {}
        for place, value in enumerate(values):
            sizes = enumerate(value.size()) if isinstance(value, torch.Tensor) else [(-1, value)]
            for dim, size in sizes:
                if isinstance(size, torch.SymInt):
                    found.setdefault(size.node.expr, (place, dim))
        places = [found[symbol] for symbol in self.symbols if symbol in found]
        return places if len(places) == len(self.symbols) else None

    def condition(self, places: Sequence[tuple[int, int]], inputs: Sequence[str]) -> str:
        """The condition that a call is for a combination, as an expression of the inputs, which are texts."""
        sizes = [f"{inputs[place]}.size({dim})" if dim >= 0 else inputs[place] for place, dim in places]
        return " or ".join(
            "(" + " and ".join(f"{size} == {gear}" for size, gear in zip(sizes, combination, strict=True)) + ")"
            for combination in self.combinations
        )

    def engine_options(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, str]:
        """The options of the graph engine. ``shapes`` has the sizes of its inputs by their names, -1 for unknown
        ones."""
        texts = [f"{name}:{','.join(map(str, sizes))}" for name, sizes in shapes.items() if sizes]
        dims = ";".join(",".join(map(str, combination)) for combination in self.combinations)
        return {"ge.inputShape": ";".join(texts), "ge.dynamicDims": dims, "ge.dynamicNodeType": "1"}

    def _text_of(self, sizes: tuple[int, ...]) -> str:
        given = ", ".join(f"{source} is {size}" for source, size in zip(self.sources, sizes, strict=True))
        if len(self.symbols) == 1:
            return f"{given}, and its gears are {', '.join(str(gear) for (gear,) in self.combinations)}"
        return f"{given}, and the combinations of their gears are {', '.join(map(str, self.combinations))}"


def _name(node: fx.Node) -> str:
    return getattr(getattr(node, "_dynamo_source", None), "name", node.name)
