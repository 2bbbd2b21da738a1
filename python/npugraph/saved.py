# SPDX-License-Identifier: Apache-2.0
"""Programs that ``Artifact.save`` wrote."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from npugraph import _C


class SavedProgram:
    """A function: it takes the list of the Program's inputs, in order, and returns the tuple of its outputs."""

    def __init__(self, path: str) -> None:
        self._name, self._inputs, self._run = _C.load_program(path)

    @property
    def name(self) -> str:
        """Name of the artifact that was saved."""
        return self._name

    @property
    def inputs(self) -> list[str]:
        """The inputs in order, for people: name, type and sizes, and which are of the model or written."""
        return list(self._inputs)

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Runs the Program. ``TypeError`` for anything but a sequence, ``ValueError`` for another number of inputs."""
        if isinstance(inputs, (torch.Tensor, str)) or not isinstance(inputs, Sequence):
            raise TypeError(
                f"{self._name} takes one list with its inputs, got {type(inputs).__name__};{self._wanted()}"
            )
        if len(inputs) != len(self._inputs):
            count = f"{len(self._inputs)} input{'s' * (len(self._inputs) != 1)}"
            raise ValueError(f"{self._name} takes {count}, got {len(inputs)};{self._wanted()}")
        return self._run(list(inputs))  # which empties the list that it is given

    def _wanted(self) -> str:
        return " they are:" + "".join(f"\n  input {i} {text}" for i, text in enumerate(self._inputs))

    def __repr__(self) -> str:
        return f"<npugraph.SavedProgram {self._name}: {', '.join(self._inputs)}>"


def load(path: str) -> SavedProgram:
    """Loads what ``Artifact.save`` wrote. ``ValueError`` when the file is no Program, is damaged, or was made with
    another torch or for other schemas of its operators."""
    return SavedProgram(str(path))
