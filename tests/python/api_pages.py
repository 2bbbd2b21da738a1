# SPDX-License-Identifier: Apache-2.0
"""The examples in the pages of docs/api. ``python tests/python/api_pages.py PAGE`` runs those of one page.

The first example of a page is its preamble. Every other example runs after the preamble, with variables of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGES = sorted((Path(__file__).parents[2] / "docs/api").glob("*.md"))


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
    command = [sys.executable, "-P", __file__, str(PAGES[0].parent / page)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def main(page: str) -> None:
    preamble, *others = (compile(example, page, "exec") for example in examples(Path(page)))
    names = {"__name__": "__main__"}
    exec(preamble, names)
    for example in others:
        exec(example, dict(names))


if __name__ == "__main__":
    main(sys.argv[1])
