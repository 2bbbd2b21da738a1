# SPDX-License-Identifier: Apache-2.0
"""The text of ``output_code.py``: the last graph of a compile, as Python that computes the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import fx

from npugraph.debug.python_source import Constants, source_of
from npugraph.fx.values import is_strided

_CODE = '''
_graph = GraphModule()


def forward(*inputs):
    """The results of the compiled function, in order."""
    return _graph(*inputs)


_layouts = {layouts}  # of inputs with fixed sizes: position, sizes, strides
_checked = False


def kernel(*inputs):
    """The same. The first run checks sizes and strides of the inputs."""
    global _checked
    if not _checked:
        for position, sizes, strides in _layouts:
            torch._C._dynamo.guards.assert_size_stride(inputs[position], sizes, strides)
        _checked = True
    return forward(*inputs)
'''


def output_code(
    gm: fx.GraphModule, artifact: Any, inputs: Sequence[Any], sources: Sequence[str], constants: Constants
) -> str:
    """``gm`` is the graph that the artifact computes, ``inputs`` are its fake inputs, and ``sources`` say where Dynamo
    found them."""
    head = [f"# {artifact.name}, made by npugraph_ex.", "# Inputs:"]
    head += [f"#   {i}  {source}" for i, source in enumerate(sources)]
    head.append("# What runs in its place, in order:")
    head += [f"#   {task.name} ({task.kind})" + (f": {task.origin}" if task.origin else "") for task in artifact.tasks]
    return (
        "\n".join(_comment(line) for line in head)
        + "\n"
        + source_of(gm, constants)
        + _CODE.format(layouts=_layouts(inputs))
    )


def _comment(line: str) -> str:
    return " ".join(line.splitlines())


def _layouts(inputs: Sequence[Any]) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    found = []
    for position, value in enumerate(inputs):
        if is_strided(value):
            numbers = tuple(value.shape), tuple(value.stride())
            if all(isinstance(number, int) for number in (*numbers[0], *numbers[1])):
                found.append((position, *numbers))
    return found
