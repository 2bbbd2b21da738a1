# SPDX-License-Identifier: Apache-2.0
"""Replacement rules: a pattern in an FX graph and its replacement, matched by torch's own matcher.

One registry holds the built-in rules (npugraph/fx/passes/patterns) and those that users register. Both are registered
by ``register_replacement``.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._inductor import pattern_matcher
from torch._inductor.pattern_matcher import Match, PatternExpr, PatternMatcherPass, fwd_only
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree

from npugraph.fx.passes.conditions import Condition, same_arguments, same_stream
from npugraph.fx.passes.patterns import FAMILIES, load_all
from npugraph.fx.source_lines import source_line
from npugraph.fx.values import origin_of
from npugraph.warning_kinds import NpugraphWarning

BUILT_IN = "built-in"
_BUILT_IN_RULES = "npugraph.fx.passes.patterns."

Check = Callable[[Match], bool]


@dataclasses.dataclass(frozen=True)
class Rule:
    """A registered rule. ``operators`` are the targets that its pattern calls. The rule can match only in graphs that
    have all of them."""

    name: str
    family: str  # the same for rules that are forms of each other
    source: str  # "file:line" of search_fn, or BUILT_IN
    operators: frozenset[Any]
    matcher: PatternMatcherPass
    conditions: Sequence[Condition]
    seen: tuple[str, str | None]  # texts of the pattern and its graph, by which torch recognises it
    is_joint: bool  # not traced for inference: also tried in joint graphs of a forward and its backward

    @property
    def pattern(self) -> PatternExpr:
        return entry_of(self.matcher).pattern

    def remove(self) -> None:
        """Removes the rule for graphs that are compiled later. Its pattern may then be registered again."""
        registry.remove(self)

    def __repr__(self) -> str:
        return f"<rule {self.name} ({self.source})>"


@dataclasses.dataclass(frozen=True)
class Replacement:
    """One use of a rule: its name, the operators that it removed and added, and the user's line."""

    rule: str
    removed: tuple[str, ...]
    added: tuple[str, ...]
    source: str


class Registry:
    """The rules in the order in which they are tried. Built-in rules come first, in the order of their families,
    whichever family a graph needed first. Rules of users follow in the order of registration. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[Rule] = []

    def new_matcher(self, name: str) -> PatternMatcherPass:
        """A matcher that knows the patterns of all rules, so that it refuses a pattern that is registered already."""
        matcher = PatternMatcherPass(pass_name=name)
        for pattern, graph in (rule.seen for rule in self.rules()):
            matcher.seen_patterns[pattern].append(graph)
        return matcher

    def add(self, rule: Rule) -> None:
        with self._lock:
            self._rules.append(rule)
            self._rules.sort(key=_place)

    def rules(self) -> list[Rule]:
        with self._lock:
            return list(self._rules)

    def remove(self, rule: Rule) -> None:
        with self._lock:
            self._rules.remove(rule)


def _place(rule: Rule) -> int:
    names = [family for family, _ in FAMILIES]
    return names.index(rule.family) if rule.source == BUILT_IN else len(names)


registry = Registry()


def replacements() -> list[Rule]:
    """All replacement rules, in the order in which they are tried: the built-in ones, then those of users. Each has a
    name, a source ("built-in", or the file and line of its ``search_fn``) and the operators of its pattern."""
    load_all()
    return registry.rules()


def register_replacement(
    search_fn: Callable[..., Any],
    replace_fn: Callable[..., Any],
    example_inputs: Sequence[Any],
    trace_fn: Callable[..., fx.GraphModule] = fwd_only,
    extra_check: Check | Sequence[Check] | None = None,
    search_fn_pattern: PatternExpr | None = None,
    scalar_workaround: dict[str, float | int] | None = None,
    skip_duplicates: bool = False,
) -> bool:
    """Registers a rule: where a graph computes ``search_fn``, ``replace_fn`` takes its place.

    Both functions are traced with ``example_inputs``. Their sizes do not matter, because a possible match is checked
    with the sizes of the graph. ``extra_check`` may refuse a match; of a list, each check may. A
    ``npugraph_ex.Condition`` tells ``explain()`` what it requires. ``search_fn_pattern`` is matched instead of the
    pattern that ``search_fn`` traces to. ``scalar_workaround`` names arguments that are numbers, each with a value for
    tracing.

    Rules with another ``trace_fn`` than ``fwd_only``, such as torch's ``joint_fwd_bwd``, are for training. They are
    tried in the joint graph of a forward and its backward, before that is cut in two, and again in each graph.

    Rules are tried in the order of registration, after the built-in ones. A match lies on one stream. Its calls have no
    keyword arguments that the pattern does not have, unless the pattern is a ``search_fn_pattern``. If ``replace_fn``
    would give results of another number, type or size, the match stays as it is, with a warning.

    Returns whether the rule is new. With ``skip_duplicates`` a pattern that is registered already is skipped, else it
    is a ``RuntimeError``. Raises ``TypeError`` if a function or ``example_inputs`` is of the wrong kind, or if they do
    not fit together. The rule's name is that of ``search_fn``; ``npugraph_ex.replacements()`` lists all rules.
    """
    checks = _checks(extra_check)
    for parameter, function in (("search_fn", search_fn), ("replace_fn", replace_fn), *checks):
        _expect(callable(function), f"{parameter} is a function", function)
    _expect(isinstance(example_inputs, (list, tuple)), "example_inputs is a list or tuple", example_inputs)
    _expect_arguments(search_fn, replace_fn, len(example_inputs), scalar_workaround or {})
    name = _name(search_fn)
    conditions = [same_stream]
    if search_fn_pattern is None:
        conditions.append(same_arguments)
    conditions += [_condition(check) for _, check in checks]
    matcher = registry.new_matcher(name)
    known = {pattern: len(graphs) for pattern, graphs in matcher.seen_patterns.items()}
    with _duplicates_named(name):
        is_new = pattern_matcher.register_replacement(
            search_fn,
            replace_fn,
            example_inputs,
            _with_decompositions(trace_fn),
            matcher,
            extra_check=functools.partial(_all_hold, conditions),
            scalar_workaround=scalar_workaround,
            search_fn_pattern=search_fn_pattern,
            skip_duplicates=skip_duplicates,
            pattern_name=name,
            get_decomp_fn=dict,  # graphs hold ATen operators undecomposed
        )
    if not is_new:
        return False
    pattern = entry_of(matcher).pattern
    (seen,) = ((text, graphs[-1]) for text, graphs in matcher.seen_patterns.items() if len(graphs) > known.get(text, 0))
    operators, is_joint = frozenset(operators_of(pattern)), trace_fn is not fwd_only
    registry.add(Rule(name, *_home(search_fn), operators, matcher, tuple(conditions), seen, is_joint))
    return True


def _checks(given: Check | Sequence[Check] | None) -> list[tuple[str, Check]]:
    if given is None:
        return []
    several = given if isinstance(given, (list, tuple)) else [given]
    return [("extra_check", check) for check in several]


def _condition(check: Check) -> Condition:
    return check if isinstance(check, Condition) else Condition(f"extra_check ({_source(check)}) accepts it", check)


def _expect(holds: bool, what: str, given: Any) -> None:
    if not holds:
        raise TypeError(f"register_replacement: {what}, got {given!r} ({type(given).__name__})")


def _expect_arguments(search_fn: Any, replace_fn: Any, inputs: int, scalars: Mapping[str, Any]) -> None:
    given, takes = _parameters(search_fn), _parameters(replace_fn)
    if given is None:
        return
    names = list(given.parameters)
    needed, listed = len([name for name in names if name not in scalars]), ", ".join(names)
    if inputs < needed:
        raise TypeError(
            f"register_replacement: {_name(search_fn)} ({_source(search_fn)}) takes {listed}: there have to be "
            f"{needed} example_inputs, got {inputs}"
        )
    try:
        if takes is not None:
            takes.bind(*names)
    except TypeError as error:
        raise TypeError(
            f"register_replacement: replace_fn ({_source(replace_fn)}) is called with the arguments of search_fn, "
            f"{listed}, and cannot be: {error}"
        ) from None


def _parameters(function: Any) -> inspect.Signature | None:
    """The signature of a function. None for builtins that have none."""
    try:
        return inspect.signature(function)
    except ValueError:
        return None


@contextlib.contextmanager
def _duplicates_named(name: str) -> Iterator[None]:
    """A context around torch's registration. It makes an error about a duplicate pattern name the rule."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith("Duplicate pattern"):
            raise
        raise RuntimeError(
            f"register_replacement: Duplicate pattern: that of {name} is there already; skip_duplicates=True leaves it "
            "out, and remove() of a rule in npugraph_ex.replacements() makes room for another one"
        ) from error


def apply_rules(gm: fx.GraphModule, rules: Sequence[Rule]) -> list[Replacement]:
    """Applies the rules in order. In place."""
    made: list[Replacement] = []
    for rule in rules:
        with _Watch(gm, rule, made):
            rule.matcher.apply(gm)
    if made:
        pattern_matcher.stable_topological_sort(gm.graph)
        gm.graph.eliminate_dead_code()
    return made


def entry_of(matcher: PatternMatcherPass) -> pattern_matcher.PatternEntry:
    """The one entry that a rule put into its matcher."""
    (entry,) = (entry for entries in matcher.patterns.values() for entry in entries)
    return entry


def operators_of(pattern: Any) -> Iterator[Any]:
    """The targets of the calls in a pattern."""
    if isinstance(pattern, pattern_matcher.MultiOutputPattern):
        parts = pattern.outputs
    elif isinstance(pattern, pattern_matcher._TargetArgsExpr):
        if len(pattern.fns) == 1:
            yield pattern.fns[0]
        parts = pattern.flat_args_kwargs[0]
    else:
        parts = ()
    for part in parts:
        yield from operators_of(part)


class _Watch:
    """Records what a rule does, and gives new nodes the origin of the nodes that they replace."""

    def __init__(self, gm: fx.GraphModule, rule: Rule, made: list[Replacement]) -> None:
        self.entry = entry_of(rule.matcher)
        self.gm, self.rule, self.made = gm, rule, made
        self.new: list[fx.Node] = []

    def __enter__(self) -> None:
        self.gm._register_create_node_hook(self.new.append)
        self.entry.apply = self._apply

    def __exit__(self, kind: Any, error: BaseException | None, _: Any) -> None:
        del self.entry.apply
        self.gm._unregister_create_node_hook(self.new.append)
        if isinstance(error, Exception):
            rule = f"the replacement rule {self.rule.name} ({self.rule.source})"
            raise RuntimeError(f"{rule} cannot be applied: {type(error).__name__}: {error}") from error

    def _apply(self, match: Match, graph: fx.Graph, node: fx.Node) -> None:
        origin, source = origin_of(node), source_line(node)
        if difference := _difference(match):
            warnings.warn(
                f"the replacement rule {self.rule.name} ({self.rule.source}) is not applied at {source or node.name}: "
                f"{difference}",
                NpugraphWarning,
                stacklevel=2,
            )
            return
        if "custom" in node.meta:
            origin["custom"] = node.meta["custom"]
        removed = tuple(str(n.target) for n in match.nodes if n.op == "call_function")
        self.new.clear()
        type(self.entry).apply(self.entry, match, graph, node)
        added = [n for n in self.new if not n._erased]
        for n in added:
            n.meta |= {key: value for key, value in origin.items() if key not in n.meta}
        self.made.append(Replacement(self.rule.name, removed, tuple(str(n.target) for n in added), source))


def _difference(match: Match) -> str:
    """Describes how results of the replacement differ in number, type or size from those that they would replace."""
    before = [node and node.meta.get("val") for node in match.output_nodes()]
    (output,) = match.replacement_graph.graph.find_nodes(op="output")
    after = [getattr(one, "meta", {}).get("val") for one in pytree.tree_leaves(output.args[0])]
    if len(before) != len(after):
        return f"search_fn has {len(before)} results, replace_fn {len(after)}"
    for index, (old, new) in enumerate(zip(before, after, strict=True)):
        if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor) and not _fits(new, old):
            which = f"result {index} of" if len(before) > 1 else "the result of"
            return f"{which} search_fn is {_described(old)}, that of replace_fn {_described(new)}"
    return ""


def _fits(new: torch.Tensor, old: torch.Tensor) -> bool:
    """Whether two tensors have the same type and, as far as is known, the same size."""
    if new.dtype != old.dtype or new.dim() != old.dim():
        return False
    return not any(statically_known_true(a != b) for a, b in zip(new.shape, old.shape, strict=True))


def _described(value: torch.Tensor) -> str:
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def _all_hold(conditions: Sequence[Condition], match: Match) -> bool:
    return all(condition.refusal(match) is None for condition in conditions)


def _with_decompositions(trace_fn: Callable[..., fx.GraphModule]) -> Callable[..., fx.GraphModule]:
    """Makes a tracing function accept ``get_decomp_fn``, by which torch tells it what to decompose. Functions of users
    may not know this parameter."""
    try:
        takes = inspect.signature(trace_fn).parameters
    except (TypeError, ValueError):
        return trace_fn
    if "get_decomp_fn" in takes or any(p.kind is p.VAR_KEYWORD for p in takes.values()):
        return trace_fn
    return lambda fn, args, **_: trace_fn(fn, args)


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__).rsplit("<locals>.", 1)[-1]


def _source(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else _name(function)


def _home(search_fn: Callable[..., Any]) -> tuple[str, str]:
    """The family and the source of a rule. Each family of built-in rules is a module."""
    module = getattr(search_fn, "__module__", None) or ""
    if module.startswith(_BUILT_IN_RULES):
        return module.removeprefix(_BUILT_IN_RULES), BUILT_IN
    return _name(search_fn), _source(search_fn)
