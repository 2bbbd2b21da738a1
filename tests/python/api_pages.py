# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/api. ``python tests/python/api_pages.py PAGE`` runs the examples of one.

The first example of a page is its preamble. Each other one runs after it, with names of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGES = sorted((Path(__file__).parents[2] / "docs/api").glob("*.md"))


def examples(page: Path) -> list[str]:
    """The examples of a page. Each begins on its own line of the page, which errors name."""
    text = page.read_text()
    found = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return ["\n" * text.count("\n", 0, match.start(1)) + match[1] for match in found]


def with_examples(*, npu: bool) -> list[str]:
    """Names of the pages whose examples need torch_npu, or of those whose examples do not."""
    return [page.name for page in PAGES if examples(page) and ("import torch_npu" in examples(page)[0]) == npu]


def headings(page: Path) -> list[str]:
    code = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
    return re.findall(r"^#+ (.+)$", code.sub("", page.read_text()), re.MULTILINE)


def check_examples(page: str, folder: Path) -> None:
    """Runs them in a process of their own, in ``folder``."""
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
