# SPDX-License-Identifier: Apache-2.0
"""Opens a page in a browser without a window: asks what it draws, reads its console, and takes pictures of it."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Root cannot have a sandbox. The other flags keep the browser from looking for hardware and for a network.
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--host-rules=MAP * ~NOTFOUND",
)
_ANSWER = "answer-of-the-page"


@dataclasses.dataclass(frozen=True)
class Seen:
    answer: Any  # the value of the question
    console: list[str]


def look(page: Path, question: str, scratch: Path, width: int = 1440) -> Seen:
    """Opens ``page`` and runs ``question``, JavaScript that returns a value which JSON can hold."""
    asked = scratch / f"asked_{page.name}"
    script = f"""<script>
      const answer = document.createElement("pre");
      answer.id = "{_ANSWER}";
      answer.textContent = JSON.stringify((() => {{ {question} }})());
      document.body.append(answer);
    </script></body>"""
    asked.write_text(page.read_text().replace("</body>", script))
    done = _open(asked, scratch, width, 900, "--enable-logging=stderr", "--dump-dom")
    console = re.findall(r":CONSOLE[:(]\d+\)?\] (.*)", done.stderr)
    found = re.search(rf'<pre id="{_ANSWER}">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the page did not come to its end: {console}"
    return Seen(json.loads(html.unescape(found[1])), console)


def picture(page: Path, scratch: Path, width: int, height: int, out: Path) -> None:
    """Writes a PNG of the first ``height`` pixels of a page ``width`` pixels wide."""
    _open(page, scratch, width, height, "--hide-scrollbars", f"--screenshot={out}")


def _open(page: Path, scratch: Path, width: int, height: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    name = next(filter(None, map(shutil.which, _NAMES)), None)
    if name is None:
        pytest.fail(f"there is no {' or '.join(_NAMES)}; scripts/setup tests installs the first of them")
    return subprocess.run(
        [
            name,
            *_FLAGS,
            f"--user-data-dir={scratch / 'profile'}",
            f"--window-size={width},{height}",
            *arguments,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={key: value for key, value in os.environ.items() if key != "LD_PRELOAD"},  # no sanitizer
    )
