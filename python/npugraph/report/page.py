# SPDX-License-Identifier: Apache-2.0
"""Puts the facts of an artifact into a page."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

from npugraph.report.facts import facts

_PARTS = Path(__file__).with_name("html")
# Each script uses those before it.
_SCRIPTS = ("base.js", "head.js", "tasks.js", "streams.js", "memory.js", "graph.js", "fusion.js", "compile.js")


class Page:
    """The page of an artifact. Notebooks show it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.text)}" style="width: 100%; height: 50em; border: 0"></iframe>'


def page(artifact: Any) -> str:
    """The text of the page. It asks for no other file, and runs without a network."""
    parts = {
        "TITLE": html.escape(artifact.name),
        "STYLE": _part("page.css"),
        "FACTS": _as_json(facts(artifact)),
        "SCRIPT": "\n".join(_part(name) for name in _SCRIPTS),
    }
    return re.sub(r"/\*([A-Z]+)\*/", lambda mark: parts[mark[1]], _part("page.html"))


def _part(name: str) -> str:
    return (_PARTS / name).read_text(encoding="utf-8")


def _as_json(value: Any) -> str:
    """JSON for a script element. It has no "<", because the element ends at the first "</"."""
    return json.dumps(value, separators=(",", ":"), default=str).replace("<", "\\u003c")
