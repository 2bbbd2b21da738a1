# SPDX-License-Identifier: Apache-2.0
"""Compares the rules of result types with FakeTensor: writes calls of operators as graphs in text form, and collects
the verdicts of npugraph-opt on them.

    python -m tests.python.operator_types [ROW...] [--samples-of PART...] [--examples]

prints for each row of the table how its rule compares with FakeTensor."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import itertools
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import sympy
import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    ShapeEnv,
    StatelessSymbolicContext,
    compute_unbacked_bindings,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from npugraph.fx.translate.importer import InputInfo, import_graph
from tests.python.op_samples import OPERATORS, samples
from tests.python.operator_calls import all_calls

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("TEST_BINARIES", ROOT / "build/release/bin"))


def layouts_of(*values: Any) -> list[Any]:
    tensors = [x for x in pytree.tree_leaves(values) if isinstance(x, torch.Tensor)]
    return [
        (x.dtype, tuple(map(str, x.shape)), x.layout is torch.strided and tuple(map(str, x.stride()))) for x in tensors
    ]


# Verdicts that do not show a fault of a rule.
RIGHT = {"agrees", "open", "guarded"}


@dataclasses.dataclass(frozen=True)
class Recorded:
    """A call of an operator over fake tensors."""

    function: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    defined: dict[Any, Any]  # new symbols of the result -> their places in it
    shape_env: ShapeEnv
    guards: int  # the number of guards before the call
    layouts: list[Any]  # of arguments and results, as the call left them

    @property
    def has_changed(self) -> bool:
        """Whether a later call has changed the layout of one of its tensors in place, as ``squeeze_`` does."""
        return layouts_of(self.args, self.kwargs, self.result) != self.layouts

    @property
    def is_guarded(self) -> bool:
        """Whether the call, or anything after it, has added a guard on a symbol. The guard may have changed sizes of
        the result, which no rule can know."""
        return len(self.shape_env.guards) > self.guards


class Recorder(TorchDispatchMode):
    """Collects the calls of operators that ``wanted`` names."""

    def __init__(self, shape_env: ShapeEnv, wanted: set[str]) -> None:
        super().__init__()
        self.shape_env = shape_env
        self.wanted = wanted
        self.calls: list[Recorded] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        guards = len(self.shape_env.guards)
        result = func(*args, **kwargs)
        defined = compute_unbacked_bindings(self.shape_env, result) or {}
        if row_name(func) in self.wanted:
            layouts = layouts_of(args, kwargs, result)
            self.calls.append(Recorded(func, args, kwargs, result, defined, self.shape_env, guards, layouts))
        return result


def row_name(function: torch._ops.OpOverload) -> str:
    return f"{function.namespace}.{function._schema.name.split('::')[1]}" + (
        f".{function._overloadname}" if function._overloadname != "default" else ""
    )


def table_names(*, functional: bool = False) -> list[str]:
    """Returns the names of the rows, in the order of the table's files. ``functional`` leaves out operators that write,
    because they return an argument."""
    names = []
    for file in sorted((ROOT / "src/core/ops/rows").glob("*.inc")):
        for line in file.read_text().splitlines():
            if line.startswith("{.schema = ") and not (functional and "!)" in line):
                names.append(line.split('"')[1].split("(")[0].replace("::", "."))
    return names


def as_text(call: Recorded, name: str) -> str | None:
    """Returns the graph of one call, or None if an argument is a tensor that is sparse, conjugated or negated."""
    graph = fx.Graph()
    nodes: dict[int, fx.Node] = {}
    leaves = pytree.tree_leaves((call.args, call.kwargs))
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and id(leaf) not in nodes:
            if leaf.layout is not torch.strided or leaf.is_conj() or leaf.is_neg():
                return None
            node = graph.placeholder(f"x{len(nodes)}")
            node.meta["val"] = leaf
            nodes[id(leaf)] = node
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda x: nodes[id(x)], (call.args, call.kwargs))
    for symbol in sorted(sizes_among(nodes.values()), key=str):  # a graph gets the symbols that its sizes are made of
        node = graph.placeholder(str(symbol))
        node.meta["val"] = call.shape_env.create_symintnode(symbol, hint=None)
    inputs = [InputInfo("user", node.name) for node in graph.find_nodes(op="placeholder")]
    made = graph.create_node("call_function", call.function, args, kwargs, "y")
    made.meta["val"] = call.result
    if call.defined:
        made.meta["unbacked_bindings"] = call.defined
    # A result keeps the strides that the operator gives it, gaps included.
    graph.output((made,) if isinstance(call.result, torch.Tensor) else None)
    gm = fx.GraphModule(torch.nn.Module(), graph)
    return str(import_graph(gm, name, inputs).graph)


def sizes_among(nodes: Iterable[fx.Node]) -> set[sympy.Symbol]:
    sizes = [size for node in nodes for size in node.meta["val"].shape if isinstance(size, torch.SymInt)]
    return set().union(*(size.node.expr.free_symbols for size in sizes))


def symbolic(mode: FakeTensorMode, value: Any) -> Any:
    """Returns ``value`` with a fake tensor in place of every tensor. Each of its sizes is a symbol of its own."""

    def fake(x: torch.Tensor) -> torch.Tensor:
        dims = [DimDynamic.DYNAMIC] * x.dim()
        context = StatelessSymbolicContext(dynamic_sizes=dims, constraint_sizes=[None] * x.dim())
        return mode.from_tensor(x.detach(), symbolic_context=context)

    return pytree.tree_map_only(torch.Tensor, fake, value)


def record(function: Callable[..., Any], args: Any, kwargs: Any, wanted: set[str], *, dynamic: bool) -> list[Recorded]:
    """Returns the calls of the operators ``wanted`` that ``function`` makes over fake tensors, up to its first
    error."""
    logging.disable(logging.ERROR)  # hides the errors of operators that refuse fake tensors
    shape_env = ShapeEnv()
    mode = FakeTensorMode(shape_env=shape_env, allow_non_fake_inputs=True)
    recorder = Recorder(shape_env, wanted)
    try:
        if dynamic:
            args, kwargs = symbolic(mode, (args, kwargs))
        else:
            args, kwargs = pytree.tree_map_only(
                torch.Tensor, lambda x: mode.from_tensor(x.detach(), static_shapes=True), (args, kwargs)
            )
        with torch.no_grad(), mode, enable_python_dispatcher(), recorder:
            function(*args, **kwargs)
    except Exception:  # the sample needs something that is missing, or its sizes are refused; earlier calls count
        pass
    finally:
        logging.disable(logging.NOTSET)
    return recorder.calls


@dataclasses.dataclass
class Verdicts:
    """The verdicts of npugraph-opt on the calls: for each operator, the count of each verdict, and an example of it."""

    counts: dict[str, collections.Counter[str]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(collections.Counter)
    )
    examples: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)

    def judge(self, texts: list[str], calls: list[Recorded]) -> None:
        """Reads each of ``texts``, the graphs of ``calls``, with npugraph-opt. A type that differs from the rule's
        counts as "guarded" if the call is guarded."""
        made = subprocess.run(
            [BIN / "npugraph-opt", "--compare-types", "--expect-errors"],
            input="// -----\n".join(texts),
            capture_output=True,
            text=True,
            check=True,
        )
        lines = made.stdout.split("// -----\n")
        assert len(lines) == len(texts)
        for text, line, call in zip(texts, lines, calls, strict=True):
            operator, _, verdict = line.strip().rpartition("\n")[2].partition(": ")
            if operator != row_name(call.function):  # the importer dropped or replaced the operator
                continue
            kind = verdict.partition(":")[0]
            if kind == "differs" and call.is_guarded:
                kind = "guarded"
            self.counts[operator][kind] += 1
            self.examples.setdefault((operator, kind), f"{verdict}\n{text}")


def judged(calls: list[Recorded], verdicts: Verdicts) -> None:
    texts, read = [], []
    for call in calls:
        if not call.is_guarded and call.has_changed:
            continue
        try:
            text = as_text(call, "call")
        except Exception as error:
            verdicts.counts[row_name(call.function)]["not imported"] += 1
            verdicts.examples.setdefault((row_name(call.function), "not imported"), f"{error!r}")
            continue
        if text is not None:
            texts.append(text)
            read.append(call)
    if texts:
        verdicts.judge(texts, read)


def sampled(names: list[str], wanted: set[str], limit: int, verdicts: Verdicts) -> None:
    """Judges the calls that samples of PyTorch's operator database make."""
    for name in names:
        dtypes = OPERATORS[name].supported_dtypes("cpu") & {torch.float32, torch.int64, torch.bool, torch.complex64}
        for dtype, dynamic in itertools.product(sorted(dtypes, key=str), (False, True)):
            calls = []
            for sample in itertools.islice(samples(name, dtype), limit):
                inputs = (sample.input, *sample.args)
                for form in (OPERATORS[name].op, OPERATORS[name].inplace_variant):
                    if form is not None:
                        calls += record(form, inputs, sample.kwargs, wanted, dynamic=dynamic)
            judged(calls, verdicts)


def written(wanted: set[str], verdicts: Verdicts, every: int = 1) -> None:
    """Judges the calls of ``operator_calls``, or every nth of them."""
    for dynamic in (False, True):
        calls = []
        for function, args, kwargs in itertools.islice(all_calls(), 0, None, every):
            calls += record(function, args, kwargs, wanted, dynamic=dynamic)
        judged(calls, verdicts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="parts of names of rows; all without any")
    parser.add_argument("--samples-of", nargs="*", metavar="PART", help="parts of names in the operator database")
    parser.add_argument("--limit", type=int, default=8, help="samples of one operator and element type")
    parser.add_argument("--examples", action="store_true", help="print a graph for each verdict that is not 'agrees'")
    options = parser.parse_args()
    wanted = {name for name in table_names() if not options.rows or any(part in name for part in options.rows)}
    names = [n for n in OPERATORS if options.samples_of is None or any(part in n for part in options.samples_of)]
    verdicts = Verdicts()
    written(wanted, verdicts)
    sampled(names, wanted, options.limit, verdicts)
    for name in sorted(wanted):
        print(f"{name}: {dict(verdicts.counts[name]) or 'not called'}")
        for kind in set(verdicts.counts[name]) - {"agrees"} if options.examples else ():
            print(verdicts.examples[name, kind])
    total = sum((counts for counts in verdicts.counts.values()), collections.Counter())
    print(f"{len(wanted)} rows, {sum(not verdicts.counts[name] for name in wanted)} not called; verdicts {dict(total)}")
    return 0 if set(total) <= RIGHT else 1


if __name__ == "__main__":
    sys.exit(main())
