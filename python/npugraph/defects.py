# SPDX-License-Identifier: Apache-2.0
"""What people are told, and what they need to report, when a compile fails through a fault of ours."""

from __future__ import annotations

import traceback
import warnings

from torch import fx

from npugraph import _C
from npugraph.warning_kinds import DefectWarning


def report_defect(name: str, error: Exception, gm: fx.GraphModule) -> None:
    """Counts a compile that failed and warns of it in two lines; traceback and graph are in the file that they name."""
    _C.count("fallbacks")
    what = str(error) if isinstance(error, _C.ReportedDefect) else _in_file(error, gm)
    warnings.warn(
        f"npugraph_ex: {name} runs uncaptured, operator by operator, because compiling it failed. Please report this: "
        f"{type(error).__name__}: {what}",
        DefectWarning,
        stacklevel=3,
    )


def _in_file(error: Exception, gm: fx.GraphModule) -> str:
    """The first line of the error's text, and the name of a file with all that is known."""
    try:
        graph = gm.print_readable(print_output=False)
    except Exception:  # of a target that no code names
        graph = str(gm.graph)
    text = "".join(traceback.format_exception(error)) + "\n" + graph
    return _C.report_text(str(error), "All of it", text)
