# SPDX-License-Identifier: Apache-2.0
"""The passes over FX graphs, in order: the half of the compiler that users can see and extend in torch's own form.

They run where somebody looks at the FX graph: where the user has passes of his own, where a replacement rule may match,
or where dumps are written. For any other graph the graph passes (src/passes) do the same, but for the recovery of
updates of views, which always runs, and none of torch._inductor is imported. Results keep their strides.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx
from torch._guards import tracing
from torch._subclasses.fake_tensor import FakeTensor

from npugraph.fx.nobody import NOBODY, Nobody
from npugraph.fx.passes.output_strides import keep_strides, results
from npugraph.fx.values import evaluate, is_same
from npugraph.options import CompilerConfig

_RULES = "npugraph.fx.passes.replacements"


@dataclasses.dataclass
class Notes:
    """What the passes did, for ``Artifact``."""

    stages: dict[str, fx.GraphModule] = dataclasses.field(default_factory=dict)  # without fake tensors
    original: fx.GraphModule | None = None  # the same, of the graph before the first of them
    replacements: list[Any] = dataclasses.field(default_factory=list)
    near_misses: list[Any] = dataclasses.field(default_factory=list)
    streams: list[dict[str, str]] = dataclasses.field(default_factory=list)  # that the passes left: what scopes say


@dataclasses.dataclass
class _Run:
    gm: fx.GraphModule
    config: CompilerConfig
    rules: list[Any]
    notes: Notes

    def inputs(self) -> list[Any]:
        return [node.meta.get("val") for node in self.gm.graph.find_nodes(op="placeholder")]


def _custom_pre_pass(run: _Run) -> None:
    _custom(run, "post_grad_custom_pre_pass")


def _remove_noop_ops(run: _Run) -> None:
    if run.config.remove_noop_ops.value:
        from npugraph.fx.passes.noops import remove_noop_ops

        remove_noop_ops(run.gm.graph)


def _recover_view_inplace(run: _Run) -> None:
    from npugraph.fx.passes.view_inplace import recover_view_inplace

    recover_view_inplace(run.gm.graph)


def _replace_patterns(run: _Run) -> None:
    if run.rules:
        from npugraph.fx.passes.near_misses import near_misses
        from npugraph.fx.passes.replacements import apply_rules

        run.notes.replacements += apply_rules(run.gm, run.rules)
        run.notes.near_misses += near_misses(run.gm, run.rules)


def _view_to_reshape(run: _Run) -> None:
    from npugraph.fx.passes.view_to_reshape import view_to_reshape

    view_to_reshape(run.gm.graph)


def _custom_post_pass(run: _Run) -> None:
    _custom(run, "post_grad_custom_post_pass")


def _check_scopes(run: _Run) -> None:
    from npugraph.fx.streams.scopes import problem

    if (found := problem(run.gm.graph)) is not None:
        names = [name for name in _CUSTOM if getattr(run.config, name).value]
        blamed = f", after the custom pass {' and '.join(names)}, which has to keep both marks" if names else ""
        raise CustomPassError(found + blamed)


PASSES: tuple[tuple[str, Callable[[_Run], None]], ...] = (
    # On the graph as the front end made it.
    ("post_grad_custom_pre_pass", _custom_pre_pass),
    # Before patterns, which would have to name what does nothing.
    ("remove_noop_ops", _remove_noop_ops),
    ("recover_view_inplace_pattern", _recover_view_inplace),
    ("pattern_fusion_pass", _replace_patterns),
    # After patterns, which name view.
    ("view_to_reshape", _view_to_reshape),
    ("post_grad_custom_post_pass", _custom_post_pass),
    # Changes nothing: what the user's passes left.
    ("check_scopes", _check_scopes),
)

_CUSTOM = ("post_grad_custom_pre_pass", "post_grad_custom_post_pass")


class CustomPassError(RuntimeError):
    """A pass of the user failed, or left a graph that does not hold together."""


def run_passes(gm: fx.GraphModule, config: CompilerConfig, observer: Nobody = NOBODY) -> Notes:
    """Runs the passes on a graph whose nodes have their fake tensors in ``meta["val"]``. In place. ``observer`` is told
    of each pass that changed something."""
    notes = Notes()
    observer.begin(gm)
    run = _Run(gm, config, _candidates(gm, config), notes)
    looks = observer.runs_all_passes or config.dump_tensor_data.value
    if not (run.rules or _has_custom_passes(config) or looks):
        _recover_view_inplace(run)  # which the graph passes do not know
        return notes
    with _fake_mode_of(run.inputs()):
        first = before = _calls(gm.graph)
        original, returned = _snapshot(gm), results(gm.graph)
        for name, pass_ in PASSES:
            pass_(run)
            if (after := _calls(gm.graph)) != before:
                before = after
                notes.original = original
                notes.stages[name] = _snapshot(gm)
                observer.after(name, gm)
        _refresh_values(gm.graph, first, trusted=not _has_custom_passes(config))
        keep_strides(gm.graph, returned)
    gm.graph.lint()
    gm.recompile()
    return notes


def has_joint_rules(config: CompilerConfig) -> bool:
    """Whether a rule may match in the joint graph of a forward and its backward."""
    if not config.pattern_fusion_pass.value or _RULES not in sys.modules:
        return False
    from npugraph.fx.passes.replacements import registry

    return any(rule.is_joint for rule in registry.rules())


def run_joint_rules(gm: fx.GraphModule, config: CompilerConfig, notes: Notes) -> None:
    """Applies the rules that were traced with their gradients to a joint graph, before it is cut in two. In place."""
    rules = [rule for rule in _candidates(gm, config) if rule.is_joint]
    if not rules:
        return
    from npugraph.fx.passes.noops import remove_noop_ops
    from npugraph.fx.passes.replacements import apply_rules

    run = _Run(gm, config, rules, notes)
    with _fake_mode_of(run.inputs()):
        first = _calls(gm.graph)
        remove_noop_ops(gm.graph)  # as in traced patterns
        made = apply_rules(gm, rules)
        _refresh_values(gm.graph, first, trusted=True)
    gm.graph.lint()
    gm.recompile()
    if made:
        notes.replacements += made
        notes.stages["joint_graph"] = _snapshot(gm)


def _has_custom_passes(config: CompilerConfig) -> bool:
    return any(getattr(config, name).value for name in _CUSTOM)


def _candidates(gm: fx.GraphModule, config: CompilerConfig) -> list[Any]:
    """The rules all of whose operators the graph has."""
    if not config.pattern_fusion_pass.value:
        return []
    targets = {node.target for node in gm.graph.nodes if node.op == "call_function"}
    from npugraph.fx.passes.patterns import load_for

    load_for(targets)
    if _RULES not in sys.modules:
        return []
    from npugraph.fx.passes.replacements import registry

    return [rule for rule in registry.rules() if rule.operators <= targets]


def _custom(run: _Run, option: str) -> None:
    pass_ = getattr(run.config, option).value
    if pass_ is None:
        return
    try:
        pass_(run.gm, run.inputs(), run.config)
        run.gm.graph.lint()
    except Exception as error:
        raise CustomPassError(f"{option} {pass_!r}: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def _fake_mode_of(values: list[Any]) -> Iterator[None]:
    """The mode of the graph's own tensors. That of Dynamo's context may be another, so torch must not look there."""
    from torch._inductor.virtualized import V

    mode = next((value.fake_mode for value in values if isinstance(value, FakeTensor)), None)
    with tracing(None), V.set_fake_mode(mode), mode or contextlib.nullcontext():
        yield


# A node and what it calls: its name, target, arguments.
_Call = tuple[fx.Node, str, Any, tuple[Any, ...], dict[str, Any]]


def _calls(graph: fx.Graph) -> list[_Call]:
    """What a graph is, for comparisons: much cheaper than its text, as what nobody changed is the same object."""
    return [_call(node) for node in graph.nodes]


def _call(node: fx.Node) -> _Call:
    return node, node.name, node.target, node.args, node.kwargs


def _refresh_values(graph: fx.Graph, calls: list[_Call], trusted: bool) -> None:
    """Gives nodes their fake tensors that have none. Where passes are not ``trusted`` to have kept what operands are,
    also nodes that are not among ``calls``, with which the passes began. Then those that read another value than
    before."""
    from npugraph.fx.passes.view_to_reshape import resolve_reshape

    first = {call[0]: call for call in calls}
    renewed: set[fx.Node] = set()
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        is_reshape = node.target is torch.ops.aten.reshape.default
        if is_reshape:
            node.target = torch.ops.aten.view.default
        before = node.meta.get("val")
        kept = first.get(node) == _call(node) if is_reshape or not trusted else before is not None
        if kept and before is not None and renewed.isdisjoint(node.all_input_nodes):
            continue
        if is_reshape:
            resolve_reshape(node)
        elif not _is_given(node):
            node.meta["val"] = evaluate(node)
        if not is_same(before, node.meta.get("val")):
            renewed.add(node)


def _is_given(node: fx.Node) -> bool:
    """Whether the value of a node stands for a number that only a run can tell, or, with a graph among the operands,
    is what the front end says."""
    if any("val" not in operand.meta for operand in node.all_input_nodes):
        return True
    return "val" in node.meta and bool(node.meta.get("unbacked_bindings") or isinstance(node.meta["val"], _NUMBERS))


_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


_KEPT = ("stack_trace", "nn_module_stack")


def _snapshot(gm: fx.GraphModule) -> fx.GraphModule:
    """A copy that can be read and run, and keeps no fake tensors alive."""
    graph = fx.Graph()
    copied: dict[fx.Node, fx.Node] = {}
    graph.output(graph.graph_copy(gm.graph, copied))
    for old, new in copied.items():
        new.meta = {key: old.meta[key] for key in _KEPT if key in old.meta}
        value = old.meta.get("val")
        if isinstance(value, torch.Tensor):
            new.type = None
            new.meta["tensor"] = f"{value.dtype}{tuple(value.shape)}"
    return fx.GraphModule(gm, graph)
