# SPDX-License-Identifier: Apache-2.0
"""The examples in the pages of docs/api and docs/guides.

The first example of a page of docs/api is its preamble. Every other example runs after the preamble, with variables of
its own. The examples of a page of docs/guides are one program.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from tests.python.forks import run_python

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs/api").glob("*.md"))
GUIDES = sorted((ROOT / "docs/guides").glob("*.md"))
# Pages about a package of others, which requirements do not install, and that package.
OTHERS = {"guides/timm.md": "timm", "guides/torchao.md": "torchao"}


def examples(page: Path) -> list[str]:
    """Returns the examples of a page. Empty lines in front of each keep its line numbers, so that errors name lines of
    the page."""
    text = page.read_text()
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return ["\n" * text.count("\n", 0, match.start(1)) + match[1] for match in found]


def with_examples(*, npu: bool) -> list[str]:
    """Returns the pages whose examples need torch_npu, or those whose examples do not, such as "api/compile.md"."""
    pages = [page for page in PAGES + GUIDES if examples(page) and ("import torch_npu" in examples(page)[0]) == npu]
    return [f"{page.parent.name}/{page.name}" for page in pages]


def headings(page: Path) -> list[str]:
    code = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.+)$", code.sub("", page.read_text()), re.MULTILINE)


def check_examples(page: str, folder: Path) -> None:
    """Runs the examples of ``page`` in a process of their own, in ``folder``. It finds the tools of the build."""
    variables = os.environ | {"PATH": f"{ROOT / 'build/release/bin'}{os.pathsep}{os.environ['PATH']}"}
    program = f"import sys; sys.path.append({str(ROOT)!r}); from tests.python import api_pages; api_pages.run({page!r})"
    done = run_python("-c", program, cwd=folder, env=variables)
    assert done.returncode == 0, done.stderr


def run(page: str) -> None:
    """Runs the examples of ``page`` in this process."""
    path = ROOT / "docs" / page
    preamble, *others = (compile(example, str(path), "exec") for example in examples(path))
    names = vars(sys.modules["__main__"])  # where Dynamo looks for the globals of methods
    exec(preamble, names)
    for example in others:
        exec(example, names if path in GUIDES else dict(names))
