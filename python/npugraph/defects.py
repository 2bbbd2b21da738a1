# SPDX-License-Identifier: Apache-2.0
"""The warning about a compile that failed because of a defect of npugraph, and the file that a report needs."""

from __future__ import annotations

import traceback
import warnings

from torch import fx

from npugraph import _C
from npugraph.warning_kinds import DefectWarning


def report_defect(name: str, error: Exception, gm: fx.GraphModule, backend: str) -> None:
    """Counts a failed compile of a graph and warns of it in two lines. They name the backend that the user chose, and a
    file with the traceback and the graph."""
    _C.count("fallbacks")
    what = str(error) if isinstance(error, _C.ReportedDefect) else _in_file(error, gm)
    warnings.warn(
        f"{backend}: {name} runs uncaptured, operator by operator, because compiling it failed, by a defect of "
        f"npugraph: {type(error).__name__}: {what}",
        DefectWarning,
        stacklevel=3,
    )


def _in_file(error: Exception, gm: fx.GraphModule) -> str:
    """Returns the first line of the error's text and the name of a file that holds all that is known."""
    try:
        graph = gm.print_readable(print_output=False)
    except Exception:  # the graph has a target that code cannot name
        graph = str(gm.graph)
    text = "".join(traceback.format_exception(error)) + "\n" + graph
    return _C.report_text(str(error), "All of it", text)
