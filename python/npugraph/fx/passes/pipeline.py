# SPDX-License-Identifier: Apache-2.0
"""The passes over FX graphs, in order. Users can see this half of the compiler and extend it in torch's own form.

The passes run only if something needs them: passes of the user, a replacement rule that may match, dumps, or an
observer. For all other graphs, the graph passes (src/core/passes) do the same work and torch._inductor is not imported.
They cannot recover updates of views, so that pass always runs. Results keep their strides.
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

from npugraph.fx.compile_observer import NO_OBSERVER, CompileObserver
from npugraph.fx.corrections import keep_strides, results
from npugraph.fx.values import evaluate, is_same
from npugraph.options import CompilerConfig

_RULES = "npugraph.fx.passes.replacements"


@dataclasses.dataclass
class Notes:
    """A record of what the passes did, for ``Artifact``. Its graphs hold no fake tensors."""

    stages: dict[str, fx.GraphModule] = dataclasses.field(default_factory=dict)  # by pass: the graph after it
    original: fx.GraphModule | None = None  # the graph before the passes, if one changed it
    replacements: list[Any] = dataclasses.field(default_factory=list)
    near_misses: list[Any] = dataclasses.field(default_factory=list)
    streams: list[dict[str, str]] = dataclasses.field(default_factory=list)  # attributes of scopes, by stream


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
    # It sees the graph as the front end made it.
    ("post_grad_custom_pre_pass", _custom_pre_pass),
    # Before the patterns, which need not name no-ops then.
    ("remove_noop_ops", _remove_noop_ops),
    ("recover_view_inplace_pattern", _recover_view_inplace),
    ("pattern_fusion_pass", _replace_patterns),
    # After the patterns, which match view.
    ("view_to_reshape", _view_to_reshape),
    ("post_grad_custom_post_pass", _custom_post_pass),
    # Changes nothing. Checks what the user's passes left.
    ("check_scopes", _check_scopes),
)

_CUSTOM = ("post_grad_custom_pre_pass", "post_grad_custom_post_pass")


class CustomPassError(RuntimeError):
    """A pass of the user failed, or left an invalid graph."""


def run_passes(gm: fx.GraphModule, config: CompilerConfig, observer: CompileObserver = NO_OBSERVER) -> Notes:
    """Runs the passes on a graph whose nodes have their fake tensors in ``meta["val"]``. In place. ``observer`` is told
    of each pass that changed something."""
    notes = Notes()
    observer.begin(gm)
    run = _Run(gm, config, _candidates(gm, config), notes)
    looks = observer.runs_all_passes or config.dump_tensor_data.value
    if not (run.rules or _has_custom_passes(config) or looks):
        _recover_view_inplace(run)  # the graph passes cannot do this
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
        remove_noop_ops(gm.graph)  # traced patterns have none either
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
    """The rules whose operators all occur in the graph."""
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
    """Enters the fake mode of the graph's own tensors. Dynamo's context may have another one, so torch must not look
    there."""
    from torch._inductor.virtualized import V

    mode = next((value.fake_mode for value in values if isinstance(value, FakeTensor)), None)
    with tracing(None), V.set_fake_mode(mode), mode or contextlib.nullcontext():
        yield


# A node, its name, its target and its arguments.
_Call = tuple[fx.Node, str, Any, tuple[Any, ...], dict[str, Any]]


def _calls(graph: fx.Graph) -> list[_Call]:
    """The calls of a graph, for comparisons. They are much cheaper to compare than texts, because what nobody changed
    is the same object."""
    return [_call(node) for node in graph.nodes]


def _call(node: fx.Node) -> _Call:
    return node, node.name, node.target, node.args, node.kwargs


def _refresh_values(graph: fx.Graph, calls: list[_Call], trusted: bool) -> None:
    """Evaluates nodes that have no fake tensor, and then nodes that read changed values. ``calls`` are the calls before
    the passes. If passes are not ``trusted`` to have kept the meaning of operands, nodes that are not among ``calls``
    are evaluated, too. Turns ``reshape`` back into ``view``."""
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
    """Whether the value of a node must stay as the front end gave it: it stands for a number that only a run can tell,
    or an operand is a graph."""
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
