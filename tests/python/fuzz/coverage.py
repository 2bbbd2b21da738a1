# SPDX-License-Identifier: Apache-2.0
"""Counts the features that the random programs of this process had."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

# The tests fail unless each feature occurs in a program that was compiled and found equal to eager mode.
FEATURES = {
    "dtypes": ("float32", "float64", "bfloat16", "float16", "int64", "bool", "mixed dtypes"),
    "inputs": (
        "same tensor twice",
        "overlapping inputs",
        "inputs from one base, disjoint",
        "non-contiguous input",
        "expanded input",
        "input with an offset",
        "zero-size",
        "0-dim",
    ),
    "sizes": (
        "symbolic sizes",
        "size 1 where compiled for more",
        "symbolic scalar",
        "slice to another size",
        "slice by a sum of sizes",
        "row of a computed size",
        "broadcast of a row",
        "cat of other sizes",
        "index of another size",
        "tensor of a sum of sizes",
        "gradients",
    ),
    "writes": (
        "write to an input",
        "write to a view of an input",
        "write to overlapping inputs",
        "write to an intermediate",
        "write to an intermediate that has views",
        "write to a view of an intermediate",
        "in-place",
        "copy_",
        "assignment",
        "out=",
        "change of metadata",
    ),
    "outputs": (
        "output is an input",
        "output is a view of an input",
        "outputs share an intermediate",
        "same output twice",
        "non-contiguous output",
        "expanded output",
    ),
    "views": (
        "view",
        "reshape",
        "transpose",
        "slice",
        "strided slice",
        "select",
        "expand",
        "unsqueeze",
        "split",
        "diagonal",
        "overlapping view",
        "view of other dtype",
    ),
    "operators": (
        "pointwise",
        "inexact number",
        "comparison",
        "where",
        "conversion",
        "reduction",
        "matmul",
        "normalisation",
        "product",
        "quantised product",
        "convolution",
        "attention",
        "cat",
        "stack",
        "clone",
        "contiguous",
        "rearrangement",
        "constant",
        "creation",
        "gather",
        "index_copy",
        "index_add",
        "index_put",
        "scatter",
    ),
}

_found: dict[str, Counter[str]] = defaultdict(Counter)
_programs: Counter[str] = Counter()
_rejected: dict[str, Counter[str]] = defaultdict(Counter)
_started: set[str] = set()


def started(mode: str) -> None:
    _started.add(mode)


def has_started(mode: str) -> bool:
    return mode in _started


def note(mode: str, features: Iterable[str]) -> None:
    """Counts a program that was found equal to eager mode."""
    _programs[mode] += 1
    _found[mode].update(features)


def note_rejected(mode: str, reason: str) -> None:
    """Counts a program on which torch alone differs from eager mode."""
    _rejected[mode][" ".join(reason.split())[:90]] += 1


def share_left_out(mode: str) -> float:
    left_out = _rejected[mode].total()
    return left_out / max(1, left_out + _programs[mode])


def missing() -> list[str]:
    return [feature for group in FEATURES.values() for feature in group if not any(c[feature] for c in _found.values())]


def table() -> str:
    """Returns a table of the programs by feature and by mode, or an empty text if no program ran."""
    modes = list(_programs)
    if not modes:
        return ""
    lines = [f"{'programs that use':42}" + "".join(f"{mode:>10}" for mode in modes)]
    for group, features in FEATURES.items():
        lines.append(group)
        lines += [f"  {f:40}" + "".join(f"{_found[mode][f]:10}" for mode in modes) for f in features]
    lines.append(f"{'all, equal to eager':42}" + "".join(f"{_programs[mode]:10}" for mode in modes))
    lines.append(
        f"{'left out, torch alone differs':42}" + "".join(f"{sum(_rejected[mode].values()):10}" for mode in modes)
    )
    lines += [f"  {mode}, {count}: {reason}" for mode in modes for reason, count in _rejected[mode].most_common()]
    return "\n".join(lines)
