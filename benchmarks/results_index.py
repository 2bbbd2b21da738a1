# SPDX-License-Identifier: Apache-2.0
"""Writes results/README.md, which lists what was measured: python -m benchmarks.results_index.

A file is named after its machine and its subject. Beside it lies the folder that ``benchmarks.plots`` drew of it.
"""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "results"
HEAD = """\
# Results

Each file is what `python -m benchmarks ... --json FILE` wrote, named after its machine and its subject; the folder of
the same name has its pictures and a page with all figures (`python -m benchmarks.plots FILE FOLDER`). This page is
written by `python -m benchmarks.results_index`.

| file | benchmarks | processor | date | commit | bars met |
|---|---|---|---|---|---|
"""


def line(path: Path) -> str:
    record = json.loads(path.read_text())
    first = record["runs"][0]
    names = ", ".join(dict.fromkeys(f"`{result['benchmark']}`" for result in record["results"]))
    met = [bar.startswith("met ") for bar in record["bars"]]
    cells = (
        f"[{path.stem}]({path.stem}/index.html)",
        names,
        f"{first['processor']}, {first['capability']}",
        first["started"][:10],
        f"`{first['commit']}`",
        f"{sum(met)} of {len(met)}",
    )
    return f"| {' | '.join(cells)} |\n"


def page() -> str:
    return HEAD + "".join(line(path) for path in sorted(FOLDER.glob("*.json")))


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(page())
