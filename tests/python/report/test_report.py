# SPDX-License-Identifier: Apache-2.0
"""The page about an artifact, as a browser draws it."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path

import pytest
import torch

import npugraph
import npugraph_ex
from npugraph.report.page import page
from tests.python.forks import run_python
from tests.python.report.browser import look

VIEWS = ("run", "time", "streams", "memory", "graph", "fusion", "compile")

# For each view: the number of shapes that can be seen, the number of rows of tables, the text, and whether it is too
# wide.
QUESTION = """
  const seen = (item) => { const box = item.getBoundingClientRect(); return box.width > 0 && box.height > 0; };
  const views = {};
  for (const section of document.querySelectorAll("section[id]")) {
    views[section.id] = {
      shapes: [...section.querySelectorAll("svg rect, svg path, svg circle")].filter(seen).length,
      rows: [...section.querySelectorAll("tbody tr")].filter(seen).length,
      text: section.textContent,
      wide: section.scrollWidth > section.clientWidth + 1,
    };
  }
  return views;
"""


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.up = torch.nn.Linear(16, 64)
        self.down = torch.nn.Linear(64, 16)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.up(self.norm(x)))
        y = self.down(h) + x
        return y.cumsum(0).softmax(-1)


def compiled(model, *inputs, calls: int = 3, **arguments) -> npugraph.Artifact:
    run = torch.compile(model, backend="npugraph_ex", **arguments)
    for _ in range(calls):
        run(*inputs)
    return npugraph.artifacts()[-1]


def drawn(artifact: npugraph.Artifact, folder: Path, question: str = QUESTION):
    path = folder / "page.html"
    artifact.report(str(path))
    seen = look(path, question, folder)
    assert seen.console == []
    return seen.answer


def test_every_view_is_drawn(tmp_path) -> None:
    artifact = compiled(Block().eval(), torch.randn(8, 16))
    views = drawn(artifact, tmp_path)
    assert set(views) == {"verdict", "head", *VIEWS}
    tasks = len(artifact.tasks)
    for name in ("time", "streams", "memory", "graph", "compile"):
        assert views[name]["shapes"] > 0, name
    assert not any(view["wide"] for view in views.values())
    assert views["time"]["rows"] == tasks
    assert views["streams"]["shapes"] == tasks
    kinds = {buffer.kind for buffer in artifact.buffers}
    placed = [buffer for buffer in artifact.buffers if buffer.offset >= 0]
    # The view draws a layer for each kind, a cover for each step, and the blocks of the arena.
    assert views["memory"]["shapes"] == len(kinds) + tasks + 1 + len(placed)
    for task in artifact.tasks:
        assert task.name in views["time"]["text"]
        assert task.reason in views["time"]["text"]
    assert "stream 0" in views["streams"]["text"]
    assert "add, cumsum" in views["fusion"]["text"]
    assert "their loops differ" in views["fusion"]["text"]
    line = re.search(r"test_report.py:\d+ in forward", artifact.left_apart[0].source)[0]
    assert line in views["fusion"]["text"]
    assert "no times yet" not in json.dumps(views).lower()


def test_the_page_needs_nothing_beside_it() -> None:
    text = page(compiled(Block().eval(), torch.randn(8, 16)))
    assert set(re.findall(r"https?://[^\"'\s<)]*", text)) == {"http://www.w3.org/2000/svg"}  # the name of a namespace
    assert set(re.findall(r"(?:src|href)=\"([^\"]*)\"", text)) == {"data:,", *(f"#{name}" for name in VIEWS)}
    assert not re.search(
        r"\bimport\b|fetch\(|XMLHttpRequest|url\(", text.partition('<script type="application/json"')[0]
    )


def test_before_there_are_times_and_without_an_instance(tmp_path) -> None:
    artifact = compiled(Block().eval(), torch.randn(8, 16), calls=1, options={"verify": True})
    views = drawn(artifact, tmp_path)
    assert views["streams"]["shapes"] == len(artifact.tasks)
    assert "No times yet" in views["time"]["text"]
    assert "No times yet" in views["streams"]["text"]
    assert "verifyTrue" in views["compile"]["text"]
    artifact.refresh()
    views = drawn(artifact, tmp_path)
    assert views["memory"]["shapes"] > 0
    assert "Where it lies in the arena" not in views["memory"]["text"]


def test_graphs_of_changing_sizes_with_what_torch_does_itself(tmp_path) -> None:
    def fn(x):
        chosen = x[x > 0]
        return chosen.sort().values.cumsum(0), x.exp() + x.shape[0]

    artifact = compiled(fn, torch.randn(8, 3), dynamic=True)
    views = drawn(artifact, tmp_path)
    assert views["memory"]["shapes"] > 0
    assert (
        "=8"
        in views["head"]["text"] + look(tmp_path / "page.html", "return document.body.textContent", tmp_path).answer
    )


def test_names_cannot_break_the_page(tmp_path) -> None:
    name = '</script><b id="x">&amp;/*FACTS*/'
    artifact = compiled(lambda x: x + 1, torch.randn(4), options={"name": name})
    question = "return [document.querySelector('h1').textContent, document.getElementById('x') === null, facts.name];"
    assert drawn(artifact, tmp_path, question) == [name, True, name]


def test_rows_of_the_graph_are_followed_and_long_tables_unfold(tmp_path) -> None:
    def fn(x):
        for _ in range(40):
            x = x.cumsum(0).sort(0).values
        return x

    artifact = compiled(fn, torch.randn(4, 3))
    question = """
      const before = document.querySelector("#graph .row");
      before.dispatchEvent(new PointerEvent("pointerenter"));
      const here = document.querySelectorAll("#graph .row.here").length;
      const wires = document.querySelectorAll("#graph .wire.near").length;
      before.dispatchEvent(new PointerEvent("pointerleave"));
      const rest = document.querySelectorAll("#graph .near, #graph .here").length;
      const rows = () => document.querySelectorAll("#time tbody tr").length;
      const some = rows();
      document.querySelector("#time button").click();
      const bar = document.querySelector("#streams .task");
      bar.dispatchEvent(new PointerEvent("pointermove", { clientX: 400, clientY: 300 }));
      return [here, wires, rest, some, rows(), document.getElementById("tip").textContent];
    """
    here, wires, rest, some, all_, tip = drawn(artifact, tmp_path, question)
    assert (here, rest, some, all_) == (2, 0, 24, len(artifact.tasks))
    assert wires == 1
    assert tip.startswith(f"task 0: {artifact.tasks[0].name} ({artifact.tasks[0].kind}, stream 0)")


def two_streams(x, w):
    marks = torch.ops.npugraph_ex
    start = x.cumsum(0)
    marks.tagged_stream_wait_stream("side", "main")
    marks.scope_enter(["_user_stream_label"], ["side"])
    with npugraph_ex.scope.limit_core_num(1, 2):
        y = start @ w
    marks.tagged_event_record("done")
    marks.scope_exit()
    z = start.sort(0).values
    marks.tagged_event_wait("done")
    return y + z


def test_arrows_lead_to_tasks_that_wait_for_another_stream(tmp_path) -> None:
    with torch.no_grad():
        artifact = compiled(two_streams, torch.randn(64, 64), torch.randn(64, 64))
    question = """
      const bars = [...document.querySelectorAll("#streams .task")];
      const bar = (task) => bars.find((item) => item.dataset.task === task);
      const near = (point, x, item) => Math.abs(point.x - x) < 1.5 && Math.abs(point.y - middle(item)) < 2;
      const middle = (item) => item.y.baseVal.value + item.height.baseVal.value / 2;
      const right = (item) => item.x.baseVal.value + item.width.baseVal.value;
      const arrows = [...document.querySelectorAll("#streams path.wait")].map((arrow) => {
        const [from, to] = [bar(arrow.dataset.from), bar(arrow.dataset.to)];
        const [first, last] = [arrow.getPointAtLength(0), arrow.getPointAtLength(arrow.getTotalLength() - 7.3)];
        const box = arrow.getBoundingClientRect();
        const seen = box.width > 0 && box.height > 20 && getComputedStyle(arrow).stroke !== "none";
        arrow.dispatchEvent(new PointerEvent("pointermove", { clientX: 400, clientY: 300 }));
        return [arrow.dataset.from, arrow.dataset.to, seen, near(first, right(from), from),
          near(last, to.x.baseVal.value, to), document.getElementById("tip").textContent];
      });
      const limited = bars.find((item) => tasks[item.dataset.task].limits.length);
      limited.dispatchEvent(new PointerEvent("pointermove", { clientX: 400, clientY: 300 }));
      return [arrows, document.getElementById("tip").textContent];
    """
    arrows, tip = drawn(artifact, tmp_path, question)
    waits = [(other, index) for index, task in enumerate(artifact.tasks) for other in task.waits]
    assert len(waits) == 2 and {artifact.tasks[other].stream for other, _ in waits} == {0, 1}
    tips = [f"task {index} waits for task {other}" for other, index in waits]
    assert arrows == [[str(a), str(b), True, True, True, text] for (a, b), text in zip(waits, tips, strict=True)]
    assert "\ncube_core_num 1\nvector_core_num 2\n" in tip and f"waits for task {waits[0][0]}\n" in tip


def test_patterns_that_matched_and_that_nearly_did(rule, tmp_path) -> None:
    def fn(x, y, a, b):
        return x.sin() * y, a.sin() * b

    wide, narrow = torch.randn(3, 6), torch.randn(3, 4)
    artifact = compiled(fn, wide, wide, narrow, narrow)
    (made,), (miss,) = artifact.replacements, artifact.near_misses
    views = drawn(artifact, tmp_path)
    for text in ("sine", "aten.cos.default", miss.node, miss.reason, Path(miss.source).name, Path(made.source).name):
        assert text in views["fusion"]["text"]
    question = "return facts.before.nodes.map((node) => node.op).concat('|', facts.after.nodes.map((node) => node.op));"
    ops = drawn(artifact, tmp_path, question)
    before, after = ops[: ops.index("|")], ops[ops.index("|") + 1 :]
    assert (before.count("aten.sin"), after.count("aten.sin")) == (2, 1)
    states = "return ['gone', 'new'].map((state) => document.querySelectorAll(`#graph .row.${state}`).length);"
    assert drawn(artifact, tmp_path, states) == [2, 2]


SCRIPT = """
import sys
import torch

assert sys.argv[1:] == ["--flag"], sys.argv

def main():
    model = torch.nn.Linear(4, 4)
    run = torch.compile(model, backend="npugraph_ex")
    for _ in range(3):
        run(torch.ones(2, 4)).sum().backward()

main()
"""


NO_GRAPH = "report: plain.py compiles no graph with backend npugraph or npugraph_ex\n"


def report(*arguments: str, folder: Path) -> subprocess.CompletedProcess:
    return run_python("-m", "npugraph", "report", *arguments, cwd=folder)


def test_the_command_writes_a_page_for_each_graph_of_a_script(tmp_path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    done = report("--out", "pages", "train.py", "--flag", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["pages/Linear_0.forward.html", "pages/Linear_0.backward.html"]
    for line in done.stdout.splitlines():
        seen = look(tmp_path / line, QUESTION, tmp_path)
        assert seen.console == []
        assert seen.answer["streams"]["shapes"] > 0
        assert "No times yet" not in seen.answer["time"]["text"]  # though the model is gone


def test_scripts_that_cannot_be_reported(tmp_path) -> None:
    done = report("nowhere.py", folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, "report: there is no script nowhere.py\n")
    (tmp_path / "plain.py").write_text("import sys\nsys.exit(0)\n")
    done = report("plain.py", folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, NO_GRAPH)


BREAKS = """
import torch

def in_two(x):
    y = x.sin() + 1
    torch._dynamo.graph_break()
    return y.cos() + 1

with torch.no_grad():
    torch.compile(in_two, backend="npugraph")(torch.ones(4))
    torch.compile(torch.nn.LSTM(4, 4), backend="npugraph")(torch.ones(3, 2, 4))
"""


def test_the_command_says_what_dynamo_did_not_trace(tmp_path) -> None:
    (tmp_path / "plain.py").write_text(BREAKS)
    done = report("plain.py", folder=tmp_path)
    assert done.stdout.splitlines() == ["npugraph_report/in_two_0.html", "npugraph_report/in_two_1.html"]
    head, own_break, lstm = done.stderr.splitlines()
    assert head == "report: eager mode runs what Dynamo did not trace:"
    assert re.match(r"  at plain\.py:6 in in_two: .*torch\._dynamo\.graph_break", own_break)
    assert lstm.endswith("Dynamo does not support RNN, GRU, or LSTM")


def test_a_page_that_cannot_be_written() -> None:
    artifact = compiled(lambda x: x + 1, torch.randn(4))
    with pytest.raises(FileNotFoundError) as caught:
        artifact.report("/nowhere/page.html")
    assert caught.value.filename == "/nowhere/page.html"
    with pytest.raises(FileNotFoundError):  # as for a Program
        artifact.save("/nowhere/program")


def test_notebooks_show_the_page() -> None:
    made = compiled(lambda x: x + 1, torch.randn(4)).report()
    (shown,) = re.findall(r'<iframe srcdoc="([^"]*)"', made._repr_html_())
    assert html.unescape(shown) == made.text
    assert made.text.startswith("<!DOCTYPE html>")
