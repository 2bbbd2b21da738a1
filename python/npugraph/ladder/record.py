# SPDX-License-Identifier: Apache-2.0
"""Records the results of a script's compiled graphs, and compares the records of two runs.

A folder holds one file per call of a graph and per gradient, and ``calls.jsonl`` with a line for each of them, in
order.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils import _pytree as pytree

import npugraph
from npugraph.artifact import Artifact
from npugraph.backend import CompiledGraph
from npugraph.fx.source_lines import source_line
from npugraph.ladder.compare import Tolerance, plain
from npugraph.ladder.steps import Step
from npugraph.ladder.values import MISSING, is_local, run_nodes

RESULTS = "results"


class Recorder:
    """Compiles the graphs of one process as ``step`` says, and records their calls in ``folder``. For the call with
    number ``values_of``, it also saves every value of the graph."""

    def __init__(self, step: Step, folder: Path, values_of: int | None = None) -> None:
        self.step, self.folder, self.values_of = step, folder, values_of
        self.calls = 0
        self.files = 0
        folder.mkdir(parents=True)
        (folder / "calls.jsonl").touch()
        (folder / "notes.jsonl").touch()

    def compile(
        self, compile_: Any, gm: fx.GraphModule, inputs: Sequence[Any], config: Any, decomps: Any
    ) -> CompiledGraph:
        """Compiles a graph and records its calls. It is one of ``npugraph.backend.interposers``."""
        before = npugraph.artifacts()
        run = self._compiled(compile_, gm, inputs, config, decomps)
        made = [artifact for artifact in npugraph.artifacts() if artifact not in before]
        self._line("notes.jsonl", {"rules": [(r.rule, r.source) for a in made for r in a.replacements]})
        names = [node.name for node in gm.graph.find_nodes(op="placeholder")]
        (output,) = gm.graph.find_nodes(op="output")
        sources = [source_line(n) if isinstance(n, fx.Node) else "" for n in pytree.tree_leaves(output.args[0])]

        def call(*args: Any) -> Any:
            number, self.calls = self.calls, self.calls + 1
            if number == self.values_of and made:
                self._save_values(made[0], args)
            tensors = {n: a for n, a in zip(names, args, strict=True) if isinstance(a, torch.Tensor)}
            kept = {n: a.detach().clone() for n, a in tensors.items() if not isinstance(a, torch.nn.Parameter)}
            self._follow_gradients(number, tensors)
            results = run(*args)
            written = {n: tensors[n] for n, old in kept.items() if not torch.equal(plain(tensors[n]), plain(old))}
            leaves = pytree.tree_leaves(results)
            values = {f"result {i}": leaf for i, leaf in enumerate(leaves)}
            values |= {f"the written input {n}": a for n, a in written.items()}
            self._save(number, RESULTS, values, sources)
            return results

        return CompiledGraph(call)

    def _compiled(self, compile_: Any, gm: fx.GraphModule, inputs: Sequence[Any], config: Any, decomps: Any) -> Any:
        if self.step.front == "eager":
            return gm.forward
        if self.step.front == "aot_eager":
            return _aot_eager(gm, inputs)
        for rule in _rules_among(self.step.rules_off):
            rule.remove()
        return compile_(gm, inputs, self.step.config(config), decomps).run

    def _follow_gradients(self, number: int, tensors: dict[str, torch.Tensor]) -> None:
        if not torch.is_grad_enabled():
            return
        for name, tensor in tensors.items():
            if tensor.requires_grad:
                self._follow_gradient(number, name, tensor)

    def _follow_gradient(self, number: int, name: str, tensor: torch.Tensor) -> None:
        def note(gradient: torch.Tensor) -> None:
            handle.remove()
            label = f"the gradient of {name}"
            self._save(number, label, {label: gradient}, [])

        handle = tensor.register_hook(note)

    def _save(self, number: int, kind: str, values: dict[str, Any], sources: Sequence[str]) -> None:
        file = f"{self.files:06d}.pt"
        self.files += 1
        held = {k: plain(v).clone() if isinstance(v, torch.Tensor) else v for k, v in values.items()}
        torch.save(held, self.folder / file)
        self._line("calls.jsonl", {"call": number, "kind": kind, "file": file, "sources": list(sources)})

    def _save_values(self, artifact: Artifact, args: Sequence[Any]) -> None:
        gm = artifact.to_fx()
        names = [node.target for node in gm.graph.find_nodes(op="placeholder")]
        if len(names) != len(args):  # AOTAutograd gave the graph other inputs
            return
        values: list[tuple[str, str, torch.Tensor]] = []

        def visit(node: fx.Node, value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value is not MISSING and "value" in node.meta:
                values.append((node.meta["value"], node.meta["source"], plain(value).clone()))
            return value

        own = [arg.detach().clone() if isinstance(arg, torch.Tensor) else arg for arg in args]
        run_nodes(gm, dict(zip(names, own, strict=True)), visit, is_local)
        torch.save(values, self.folder / "values.pt")

    def _line(self, file: str, entry: dict[str, Any]) -> None:
        with open(self.folder / file, "a") as out:
            out.write(json.dumps(entry) + "\n")


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first place where two runs differ. ``source`` is the user's line."""

    call: int
    what: str
    source: str

    def __str__(self) -> str:
        return self.what + (f" ({self.source})" if self.source else "")


class Recorded:
    """The records that a ``Recorder`` wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entries = {(entry["call"], entry["kind"]): entry for entry in self._lines("calls.jsonl")}

    @property
    def rules(self) -> dict[str, str]:
        """The replacement rules that were used, each with the user's line of its first use."""
        used: dict[str, str] = {}
        for note in self._lines("notes.jsonl"):
            for rule, source in note["rules"]:
                used.setdefault(rule, source)
        return used

    def first_difference(self, other: Recorded, tolerance: Tolerance) -> Difference | None:
        """The first place where ``other`` has another result than this run. None if there is none."""
        for key, entry in self.entries.items():
            found = self._difference(key, entry, other, tolerance)
            if found is not None:
                return found
        more = len(other.entries) - len(self.entries)
        return Difference(len(self.entries), f"{more} more results than there are in eager", "") if more > 0 else None

    def first_value(self, other: Recorded, tolerance: Tolerance) -> Difference | None:
        """The first value of the graph that ``other`` computed differently. Only values that both runs have count."""
        own, others = self._values(), other._values()
        known = {name: value for name, _, value in own}
        for name, source, value in others:
            text = tolerance.difference(value, known[name]) if name in known else None
            if text is not None:
                return Difference(0, f"{name}: {text}", source)
        return None

    def _difference(self, key: tuple[int, str], entry: Any, other: Recorded, tolerance: Tolerance) -> Any:
        call, kind = key
        if key not in other.entries:
            return Difference(call, f"call {call}: {kind} of eager are not there", "")
        want, got = self._load(entry), other._load(other.entries[key])
        for i, (label, value) in enumerate(want.items()):
            text = tolerance.difference(got[label], value) if label in got else "not there, or not written"
            if text is not None:
                sources = entry["sources"]
                return Difference(call, f"call {call}, {label}: {text}", sources[i] if i < len(sources) else "")
        extra = next(iter(got.keys() - want.keys()), None)
        return Difference(call, f"call {call}, {extra}: eager has it not, or does not write it", "") if extra else None

    def _load(self, entry: Any) -> dict[str, Any]:
        return torch.load(self.folder / entry["file"], weights_only=False)

    def _values(self) -> list[tuple[str, str, torch.Tensor]]:
        path = self.folder / "values.pt"
        return torch.load(path) if path.exists() else []

    def _lines(self, file: str) -> Iterator[Any]:
        path = self.folder / file
        for line in path.read_text().splitlines() if path.exists() else ():
            yield json.loads(line)


def _uncompiled(gm: fx.GraphModule, inputs: Sequence[Any]) -> Any:
    return make_boxed_func(gm.forward)


# The same as torch's backend of this name, whose import takes a second.
_aot_eager = aot_autograd(fw_compiler=_uncompiled, keep_inference_input_mutations=True)


def _rules_among(names: Sequence[str]) -> list[Any]:
    if not names:
        return []
    from npugraph.fx.passes.replacements import registry, replacements

    # Built-in rules are registered when they are first needed, and cannot be registered without their operators.
    rules = registry.rules() if {rule.name for rule in registry.rules()} >= set(names) else replacements()
    return [rule for rule in rules if rule.name in names]
