# SPDX-License-Identifier: Apache-2.0
"""All reports on a graph follow the graph: its explanation, the list of near misses, and the page."""

from __future__ import annotations

import re
import textwrap

import pytest
import torch

import npugraph
from npugraph.report.facts import facts


def matches(x, y):
    return (x.sin() * y).cumsum(0).softmax(-1)


def is_read_twice(x, y):
    s = x.sin()
    return (s * y).cumsum(0).softmax(-1), s


def has_no_sine(x, y):
    return (x.exp() * y).cumsum(0).softmax(-1)


def sorts_in_between(x, y):
    return (x.sin() * y).sort(0).values.softmax(-1)


def told(fn, size: int) -> str:
    """Returns all texts about the graph of ``fn``, without times. Line numbers count from the first line of ``fn``."""
    torch._dynamo.reset()
    run = torch.compile(fn, backend="npugraph_ex", dynamic=False, options={"name": "golden"})
    run(torch.randn(8, size), torch.randn(8, size))
    (artifact,) = npugraph.artifacts()
    shown = facts(artifact)
    lines = ["explain", *_stable(artifact.explain())]
    lines += [
        "near misses",
        *(f"  {miss.rule} at {miss.node}: {miss.reason} {miss.source}" for miss in artifact.near_misses),
    ]
    lines += ["page", *(f"  {task['name']} <- {task['origin']}" for task in shown["tasks"])]
    lines += [f"  {name}: {' '.join(node['op'] for node in shown[name]['nodes'])}" for name in ("before", "after")]
    lines += [f"  replaced {made['rule']}: {made['removed']} -> {made['added']}" for made in shown["replacements"]]
    lines += [f"  nearly {miss['rule']}: {miss['reason']}" for miss in shown["near_misses"]]
    lines += [f"  apart {pair['producer']} -> {pair['consumer']}: {pair['reason']}" for pair in shown["left_apart"]]
    first = fn.__code__.co_firstlineno
    text = re.sub(r"[^\s(]*test_golden\.py:(\d+)", lambda line: f"line {int(line[1]) - first}", "\n".join(lines))
    return re.sub(r"[^\s(]*conftest\.py:\d+", "conftest", text)


def _stable(text: str) -> list[str]:
    """Returns the lines of an explanation that depend on the graph alone."""
    sections = text.split("\n\n")
    kept = [s for s in sections if s.startswith(("Generated", "What is not", "Replaced", "Patterns", "\nPatterns"))]
    return [
        f"  {re.sub(' +', ' ', line.strip()).partition(', and no kernel')[0]}"
        for section in kept
        for line in section.strip().splitlines()
    ]


GOLDEN = {
    (matches, 6): """
        explain
          Generated code
          1 of 2 tasks, - of the time
          1x loop.cos.add.cumsum: fusion saves 768 B
          1x left apart, 192 B are loaded again: cumsum -> _softmax: their loops differ
          What is not generated code, and why
          1x aten._softmax.out: generated code would save no memory traffic here
          Replaced patterns
          sine: aten.sin.default, aten.mul.Tensor -> aten.cos.default, aten.add.Tensor (line 1 in matches)
        near misses
        page
          loop.cos.add.cumsum <- cos_default, add_tensor, cumsum
          aten._softmax.out <- _softmax
          before: aten.sin aten.mul.Tensor aten.cumsum aten._softmax
          after: aten.cos aten.add.Tensor aten.cumsum aten._softmax
          replaced sine: ('aten.sin.default', 'aten.mul.Tensor') -> ('aten.cos.default', 'aten.add.Tensor')
          apart cumsum -> _softmax: their loops differ
    """,
    (matches, 4): """
        explain
          Generated code
          1 of 2 tasks, - of the time
          1x loop.sin.mul.cumsum: fusion saves 512 B
          1x left apart, 128 B are loaded again: cumsum -> _softmax: their loops differ
          What is not generated code, and why
          1x aten._softmax.out: generated code would save no memory traffic here
          Patterns that nearly matched
          sine at mul (line 1 in matches): does not hold: extra_check (conftest) accepts it
        near misses
          sine at mul: does not hold: extra_check (conftest) accepts it line 1 in matches
        page
          loop.sin.mul.cumsum <- sin, mul, cumsum
          aten._softmax.out <- _softmax
          before: aten.sin aten.mul.Tensor aten.cumsum aten._softmax
          after: aten.sin aten.mul.Tensor aten.cumsum aten._softmax
          nearly sine: does not hold: extra_check (conftest) accepts it
          apart cumsum -> _softmax: their loops differ
    """,
    (is_read_twice, 6): """
        explain
          Generated code
          1 of 2 tasks, - of the time
          1x loop.sin.mul.cumsum: fusion saves 576 B
          1x left apart, 192 B are loaded again: cumsum -> _softmax: their loops differ
          What is not generated code, and why
          1x aten._softmax.out: generated code would save no memory traffic here
          Patterns that nearly matched
          sine at mul (line 2 in is_read_twice): sin has 2 readers, and the pattern 1
        near misses
          sine at mul: sin has 2 readers, and the pattern 1 line 2 in is_read_twice
        page
          loop.sin.mul.cumsum <- sin, mul, cumsum
          aten._softmax.out <- _softmax
          before: aten.sin aten.mul.Tensor aten.cumsum aten._softmax
          after: aten.sin aten.mul.Tensor aten.cumsum aten._softmax
          nearly sine: sin has 2 readers, and the pattern 1
          apart cumsum -> _softmax: their loops differ
    """,
    (has_no_sine, 6): """
        explain
          Generated code
          1 of 2 tasks, - of the time
          1x loop.exp.mul.cumsum: fusion saves 768 B
          1x left apart, 192 B are loaded again: cumsum -> _softmax: their loops differ
          What is not generated code, and why
          1x aten._softmax.out: generated code would save no memory traffic here
        near misses
        page
          loop.exp.mul.cumsum <- exp, mul, cumsum
          aten._softmax.out <- _softmax
          before: aten.exp aten.mul.Tensor aten.cumsum aten._softmax
          after: aten.exp aten.mul.Tensor aten.cumsum aten._softmax
          apart cumsum -> _softmax: their loops differ
    """,
    (sorts_in_between, 6): """
        explain
          Generated code
          1 of 3 tasks, - of the time
          1x loop.cos.add: fusion saves 384 B
          What is not generated code, and why
          1x aten._softmax.out: generated code would save no memory traffic here
          1x aten.sort: no generated code for this operator with these operands
          Replaced patterns
          sine: aten.sin.default, aten.mul.Tensor -> aten.cos.default, aten.add.Tensor (line 1 in sorts_in_between)
        near misses
        page
          loop.cos.add <- cos_default, add_tensor
          aten.sort <- sort
          aten._softmax.out <- _softmax
          before: aten.sin aten.mul.Tensor aten.sort aten._softmax
          after: aten.cos aten.add.Tensor aten.sort aten._softmax
          replaced sine: ('aten.sin.default', 'aten.mul.Tensor') -> ('aten.cos.default', 'aten.add.Tensor')
    """,
}


@pytest.mark.parametrize(("fn", "size"), list(GOLDEN), ids=lambda value: getattr(value, "__name__", str(value)))
def test_what_is_told_follows_the_graph(rule, fn, size) -> None:
    assert told(fn, size) == textwrap.dedent(GOLDEN[fn, size]).strip()


def test_every_change_of_the_graph_is_told() -> None:
    parts = [
        [text.split("near misses")[0], text.split("near misses")[1].split("page")[0], text.split("page")[1]]
        for text in GOLDEN.values()
    ]
    explanations, misses, pages = zip(*parts, strict=True)
    assert len(set(explanations)) == len(set(pages)) == len(GOLDEN)
    assert len(set(misses)) > 2
