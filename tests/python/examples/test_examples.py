# SPDX-License-Identifier: Apache-2.0
"""Every example, and the demo, runs in a process of its own and prints what it promises."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from npugraph.demo import __main__ as demo
from npugraph.demo import generate
from tests.python.forks import run_python

ROOT = Path(__file__).resolve().parents[3]
SAYS = {
    "01_first_graph.py": "captured 1 time",
    "02_dynamic_sizes.py": "compiles: 1, captures: 3",
    "03_live_parameters.py": "compiles: 1",
    "04_look_inside.py": "the planned program",
    "05_training_step.py": "as in eager",
    "06_kv_cache_decode.py": "copied bytes per replay: 0",
    "07_sentence_search.py": "Maren, lights the lamp",
    "08_trace.py": "most time in:",
    "09_saved_program.py": "npugraph-run: the same result",
    "10_gguf.py": "products that read blocks: matmul.gguf_linear",
}
MOST_LINES = 80


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_python(*arguments, cwd=ROOT)


def test_every_example_is_listed() -> None:
    files = {path.name for path in (ROOT / "examples").glob("[0-9]*.py")}
    assert files == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_each_example_prints_what_it_promises(name: str) -> None:
    path = ROOT / "examples" / name
    assert len(path.read_text().splitlines()) < MOST_LINES
    done = run(str(path))
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout


# Runs the cells of a notebook, and shows the value of the last expression of each as a notebook does.
RUN_CELLS = """
import ast, json, sys
names = vars(sys.modules["__main__"])
for cell in json.load(open(sys.argv[1]))["cells"]:
    if cell["cell_type"] != "code":
        continue
    *statements, last = ast.parse("".join(cell["source"])).body
    if not isinstance(last, ast.Expr):
        statements.append(last)
    exec(compile(ast.Module(statements, []), "cell", "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        print("shown:", value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))
"""


def test_the_notebook_shows_a_report_and_a_profile() -> None:
    done = run("-c", RUN_CELLS, "examples/notebook.ipynb")
    assert done.returncode == 0, done.stderr
    assert "shown: <npugraph.Artifact Model_0: " in done.stdout
    assert "shown: <iframe srcdoc=" in done.stdout
    assert "npu_fx_compiler inference" in done.stdout
    assert re.search(r" us on \d threads$", done.stdout, re.MULTILINE)


# The rows of the demo's summary, in order, and the patterns of their values.
SECONDS = r"\d+\.\d\d s"
MEBIBYTES = r"\d+\.\d MiB"
SUMMARY = {
    "same tokens as eager": r"yes, all \d+",
    "tokens/s, eager": r"\d+\.\d",
    "time to first token, eager": r"\d+ ms",
    "tokens/s, compiled": r"\d+\.\d",
    "time to first token": r"\d+ ms, once compiled",
    "compile time": rf"\d+\.\d s, first runs included: Dynamo {SECONDS}, (\w[\w ]* {SECONDS}, )+guards {SECONDS}",
    "memory of the graphs": ", ".join(f"{k} {MEBIBYTES}" for k in ("arena", "heap", "derived constants")),
    "peak memory of the process": r"\d+ MiB",
}


@pytest.mark.parametrize("backend", ["npugraph_ex", pytest.param("torchair", marks=pytest.mark.long)])
def test_demo_answers_with_eager_tokens(backend: str) -> None:
    done = run("-m", "npugraph.demo", "What is the capital of France?", "--tokens", "12", "--backend", backend)
    assert done.returncode == 0, done.stderr
    assert "The capital of France is Paris." in done.stdout
    rows = dict(re.findall(r"^  (\S.*?) {2,}(.+)$", done.stdout, re.MULTILINE))
    assert list(rows) == list(SUMMARY)
    for name, pattern in SUMMARY.items():
        assert re.fullmatch(pattern, rows[name]), f"{name}: {rows[name]}"


class WrongChat:
    """A chat whose compiled model gives another answer than the model."""

    tokenizer = None
    limit = 7
    model = "abc"
    compiled = "abd"

    def __init__(self, arguments: object, backend: object, progress: object) -> None:
        pass

    def compile(self, progress: object) -> float:
        return 1.0

    def answer(self, model: str, printer: object = None) -> generate.Timed:
        return generate.Timed([ord(letter) for letter in model], [1.0, 2.0, 3.0])

    def answer_in_turns(self) -> tuple[generate.Timed, generate.Timed]:
        return self.answer(self.compiled), self.answer(self.model)


def test_demo_fails_when_tokens_differ(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(demo, "Chat", WrongChat)
    assert demo.main(["any question"]) == demo.DIFFERENT
    assert re.search(r"same tokens as eager +NO, they part at token 3", capsys.readouterr().out)


def test_sides_of_the_demo_take_turns() -> None:
    said = []
    sides = [generate.Timed(), generate.Timed()]

    def speak(name: str, count: int) -> Iterator[int]:
        for token in range(count):
            said.append(name)
            yield token

    generate.in_turns(sides[0].record(speak("a", 5)), sides[1].record(speak("b", 3)), turn=2)
    assert "".join(said) == "aabbaaba"
    assert [side.tokens for side in sides] == [[0, 1, 2, 3, 4], [0, 1, 2]]
    assert all(side.times == sorted(side.times) for side in sides)


def test_demo_names_missing_packages() -> None:
    """The demo prints how to install the package instead of a traceback, and has an exit code of its own for this."""
    hide = "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n, *a: None if n == 'gguf' else f(n, *a)"
    done = run("-c", f"{hide}\nfrom npugraph.demo.__main__ import main\nraise SystemExit(main([]))")
    assert done.returncode == demo.MISSING
    assert "missing Python package: gguf" in done.stderr
    assert "pip install gguf" in done.stderr
