# SPDX-License-Identifier: Apache-2.0
"""``debug.graph_dump`` in mode reduce-overhead, whose graphs are FX graphs: two files of Python for each of them."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from torch import fx

from npugraph.ge.backend.concrete_graph import next_number
from npugraph.ge.config import CompilerConfig
from npugraph.ge.config.row import LEGACY
from npugraph.ge.dumps import names
from npugraph.ranks import rank

_BEFORE, _AFTER = "post_grad_custom_pre_pass", "post_grad_custom_post_pass"


def with_dumps(options: Mapping[str, Any], config: CompilerConfig) -> dict[str, Any]:
    """The options of backend npugraph_ex, with passes around those of the user that write the graph if ``config`` asks
    for it. Raises ``RuntimeError`` for a kind of file that FX graphs do not have."""
    kind = config.debug.graph_dump.type.value
    if config.mode.value != LEGACY or kind is None:
        return dict(options)
    if kind != "py":
        raise RuntimeError(
            f"option 'debug.graph_dump.type' of torchair.CompilerConfig: in mode {LEGACY!r} graphs are written as "
            f"'py' alone, got {kind!r}"
        )
    of_thread = threading.local()  # the number of the graph that a thread is compiling

    def before(gm: fx.GraphModule, inputs: Any, settings: Any) -> None:
        of_thread.number = next_number()
        _write(gm, config, "original", of_thread.number)
        if given := options.get(_BEFORE):
            given(gm, inputs, settings)

    def after(gm: fx.GraphModule, inputs: Any, settings: Any) -> None:
        if given := options.get(_AFTER):
            given(gm, inputs, settings)
        _write(gm, config, "optimized", of_thread.number)

    return {**options, _BEFORE: before, _AFTER: after}


def _write(gm: fx.GraphModule, config: CompilerConfig, stage: str, number: int) -> None:
    folder = names.folder(config.debug.graph_dump.path.value)
    text = gm.print_readable(print_output=False)
    (folder / names.of_graph(stage, number, rank(), "py")).write_text(f"import torch\n\n\n{text.strip()}\n")
