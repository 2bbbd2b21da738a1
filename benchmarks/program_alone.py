# SPDX-License-Identifier: Apache-2.0
"""Our Program for a model in a C++ process without Python and torch: what a call cannot be shorter than."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy
import torch

import npugraph
from npugraph import _C
from npugraph.fx import sources

RUN = Path(__file__).resolve().parents[1] / "build/release/bin/npugraph-run"


def microseconds(model: torch.nn.Module, inputs: dict[str, Any], repeat: int) -> float:
    """The least time of ``repeat`` runs on ``inputs`` of our latest Program, which was compiled for ``model``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        npugraph.artifacts()[-1].save(str(folder / "program"))
        arguments: list[str] = []
        for i, tensor in enumerate(find_inputs(str(folder / "program"), model, inputs)):
            numpy.save(folder / f"{i}.npy", tensor.numpy())
            arguments += ["--input", str(folder / f"{i}.npy")]
        command = [str(RUN), str(folder / "program"), *arguments, "--repeat", str(repeat), "--time"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(re.search(r"min ([\d.]+) us", done.stdout)[1])


def find_inputs(program: str, model: torch.nn.Module, inputs: dict[str, Any]) -> list[torch.Tensor]:
    paths = [sources.parse(source) for _, source in _C.LoadedProgram(program).inputs()]
    arguments = inputs | {sources.model_among(paths): model}
    return [path.find(arguments[path.argument]) for path in paths]
