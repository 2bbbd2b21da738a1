# SPDX-License-Identifier: Apache-2.0
"""The examples in the pages of docs/api.

The first example of a page is its preamble. Every other example runs after the preamble, with variables of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.python.forks import run_python

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/api").glob("*.md"))


def examples(page: Path) -> list[str]:
    """Returns the examples of a page. Empty lines in front of each keep its line numbers, so that errors name lines of
    the page."""
    text = page.read_text()
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return ["\n" * text.count("\n", 0, match.start(1)) + match[1] for match in found]


def with_examples(*, npu: bool) -> list[str]:
    """Returns the names of the pages whose examples need torch_npu, or of those whose examples do not."""
    return [page.name for page in PAGES if examples(page) and ("import torch_npu" in examples(page)[0]) == npu]


def headings(page: Path) -> list[str]:
    code = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.+)$", code.sub("", page.read_text()), re.MULTILINE)


def check_examples(page: str, folder: Path) -> None:
    """Runs the examples of ``page`` in a process of their own, in ``folder``."""
    program = f"import sys; sys.path.append({str(ROOT)!r}); from tests.python import api_pages; api_pages.run({page!r})"
    done = run_python("-c", program, cwd=folder)
    assert done.returncode == 0, done.stderr


def run(page: str) -> None:
    """Runs the examples of ``page`` in this process."""
    path = PAGES[0].parent / page
    preamble, *others = (compile(example, str(path), "exec") for example in examples(path))
    names = {"__name__": "__main__"}
    exec(preamble, names)
    for example in others:
        exec(example, dict(names))
