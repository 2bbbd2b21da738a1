# SPDX-License-Identifier: Apache-2.0
"""Models in files, run by ``npugraph-run`` in a root directory that has nothing but this program and its libraries."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch._dynamo.convert_frame import get_traced_fn

from npugraph.ge import proto

RUN = Path(__file__).parents[3] / "build/release/bin/npugraph-run"
_FILES = "files"
_CHROOT = ["chroot"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "chroot"]
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"  # the first has chroot, which a user's path may be without


class BareRoot:
    """A root directory with the program, the libraries of C and C++ that it links, and the files of models."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / "root"
        self.files = self._root / _FILES
        self.files.mkdir(parents=True)
        shutil.copy(RUN, self._root / RUN.name)
        # What this process has preloaded, such as a sanitizer, is not what the program links.
        plain = {"PATH": os.environ["PATH"]}
        linked = subprocess.run(["ldd", RUN], capture_output=True, text=True, check=True, env=plain).stdout
        for library in re.findall(r"(/\S+)", linked):
            (self._root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, self._root / library[1:])

    def run(self, air: str, inputs: Sequence[torch.Tensor | int]) -> list[np.ndarray[Any, Any]]:
        """The outputs of a model among the files."""
        arguments = []
        for i, value in enumerate(inputs):
            if isinstance(value, torch.Tensor):
                np.save(self.files / f"input{i}.npy", value.contiguous().numpy())
            arguments += ["-i", f"/{_FILES}/input{i}.npy" if isinstance(value, torch.Tensor) else str(value)]
        results = self.files / "results"
        shutil.rmtree(results, ignore_errors=True)
        results.mkdir()
        self._start(air, *arguments, "-o", f"/{_FILES}/results")
        return [np.load(results / f"output{i}.npy") for i in range(len(list(results.iterdir())))]

    def summary(self, air: str) -> str:
        """What the program says about a model among the files."""
        return self._start(air, "--summary")

    def _start(self, air: str, *arguments: str) -> str:
        command = [*_CHROOT, str(self._root), f"/{RUN.name}", f"/{_FILES}/{air}", *arguments]
        # Code for the same processor as here.
        environment = {"PATH": _PATH} | {k: v for k, v in os.environ.items() if k == "NPUGRAPH_TARGET"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


def read(path: Path) -> Any:
    return proto.ModelDef.FromString(path.read_bytes())


def inputs_of(model_def: Any) -> list[Any]:
    """The operators that are inputs of the graph, in order."""
    inputs = [op for op in model_def.graph[0].op if op.type in ("Data", "RefData")]
    return sorted(inputs, key=lambda op: op.attr["index"].i)


def arguments_of(model_def: Any, model: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """What a call of the model passes for each input of the exported graph."""
    function, owner = get_traced_fn(model)
    given = ([] if owner is None else [owner]) + list(args)
    bound = inspect.signature(function, follow_wrapped=False).bind(*given, **kwargs)
    bound.apply_defaults()
    return [eval(op.attr["_npugraph_source"].s, {"L": bound.arguments}) for op in inputs_of(model_def)]


def stripped(model_def: Any) -> Any:
    """The model without all attributes whose names are not public."""
    bare = proto.ModelDef()
    bare.CopyFrom(model_def)
    graph = bare.graph[0]
    holders = [bare, graph, *graph.op]
    holders += [desc for op in graph.op for desc in (*op.input_desc, *op.output_desc)]
    for holder in holders:
        for name in [name for name in holder.attr if name.startswith("_")]:
            del holder.attr[name]
    return bare
