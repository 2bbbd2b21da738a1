# SPDX-License-Identifier: Apache-2.0
"""Draws the results that ``--json`` wrote: python -m benchmarks.plots RESULTS.json FOLDER.

FOLDER gets a PNG for each benchmark, whose bars show how many times faster ``npugraph_ex`` is than each other side, and
``index.html``, which shows the pictures, every figure, the bars of the project and the machine.
"""

from __future__ import annotations

import html
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import duration
from benchmarks.sides import OURS

Record = dict[str, Any]
STYLE = (
    "body{font:14px sans-serif;max-width:75em;margin:2em auto}table{border-collapse:collapse}"
    "td,th{padding:.15em .8em;text-align:right;border-bottom:1px solid #ddd}"
    "td:first-child,td:nth-child(2){text-align:left}"
    "img{max-width:100%;height:auto}.wrong{color:#a00}"
)


def main(results: str, folder_name: str) -> None:
    record = json.loads(Path(results).read_text())
    write(record, Path(folder_name))


def write(record: Record, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    parts = [facts(record)]
    for name in dict.fromkeys(result["benchmark"] for result in record["results"]):
        chosen = [result for result in record["results"] if result["benchmark"] == name]
        parts.append(f"<h2>{html.escape(name)}</h2>")
        parts.append(picture(name, chosen, folder / f"{name}.png"))
        parts.append(table(chosen))
    title = "npugraph: benchmarks"
    page = f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{STYLE}</style><h1>{title}</h1>"
    (folder / "index.html").write_text(page + "\n".join(parts) + "\n")


def speedups(result: Record) -> dict[str, float]:
    """Returns the time of each other accurate side over our time. Returns nothing if our side is missing or wrong."""
    medians = {side["name"]: side["median"] for side in result["sides"] if not is_wrong(side)}
    own = medians.pop(OURS, None)
    return {name: median / own for name, median in medians.items()} if own else {}


def is_wrong(side: Record) -> bool:
    return side["ratio"] is not None and not side["ratio"]["accurate"]


def picture(name: str, results: Sequence[Record], file: Path) -> str:
    """Writes ``file`` and returns the element that shows it. If there is nothing to compare, writes nothing and returns
    an empty string."""
    from matplotlib.figure import Figure

    gains = {result["case"]: speedups(result) for result in results}
    gains = {case: values for case, values in gains.items() if values}
    if not gains:
        return ""
    names = list(dict.fromkeys(side for values in gains.values() for side in values))
    figure = Figure(figsize=(9, 1.2 + 0.16 * len(gains) * (len(names) + 1)), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(names)
    for i, side in enumerate(names):
        places = [row + i * height for row in range(len(gains))]
        axes.barh(places, [values.get(side, 0.0) for values in gains.values()], height, label=side)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(gains))], list(gains))
    axes.invert_yaxis()
    axes.set_xlabel(f"{name}: time of the other side / time of {OURS} (above 1: {OURS} is faster)")
    axes.legend(loc="best", fontsize="small")
    figure.savefig(file, dpi=120)
    return f'<img src="{html.escape(file.name)}" alt="{html.escape(name)}">'


def table(results: Sequence[Record]) -> str:
    rows = "".join(row(result, side) for result in results for side in result["sides"])
    heads = "".join(f"<th>{head}</th>" for head in ("case", "side", "median", "min", "max", "ratio", "limit", "error"))
    return f"<table><tr>{heads}</tr>{rows}</table>"


def row(result: Record, side: Record) -> str:
    ratio = side["ratio"]
    wrong = is_wrong(side)
    cells = (
        html.escape(result["case"]),
        html.escape(side["name"]),
        *(duration(value) for value in (side["median"], min(side["seconds"]), max(side["seconds"]))),
        "wrong results" if wrong else f"{ratio['value']:.3g}" if ratio else "",
        f"{side['share']:.2f} {result['limit']}" if "share" in side else "",
        f"{side['error']:.1e}",
    )
    return f"<tr{' class=wrong' if wrong else ''}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def facts(record: Record) -> str:
    """Returns a table of the machine with a column for each run, and the bars."""
    machine = "".join(
        f"<tr><td>{html.escape(key)}</td>"
        + "".join(f"<td>{html.escape(str(run[key]))}</td>" for run in record["runs"])
        + "</tr>"
        for key in record["runs"][0]
    )
    bars = html.escape("\n".join(record["bars"]))
    return f"<table>{machine}</table><h2>bars</h2><pre>{bars}</pre>"


if __name__ == "__main__":
    main(*sys.argv[1:])
