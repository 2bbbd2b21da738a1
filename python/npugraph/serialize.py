# SPDX-License-Identifier: Apache-2.0
"""Compiled functions as bytes, for ``torch.compile(fn, backend="npugraph_ex", fullgraph=True).aot_compile(...)``."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from npugraph import _C
from npugraph.artifact import Artifact
from npugraph.run_options import parse_for_running, run_options
from npugraph.saved import read


def program_of(artifact: Artifact) -> bytes:
    """What ``Artifact.save`` writes. ``ValueError`` where it cannot."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program"
        artifact.save(str(path))
        return path.read_bytes()


def serialize(compiled: Any) -> bytes:
    """A line of JSON with the options of running, and the saved Program of a compiled function. ``ValueError`` when it
    cannot be saved, see ``Artifact.save``."""
    return json.dumps(compiled.options).encode() + b"\n" + program_of(compiled.owner)


def load(program: bytes, options: Any) -> Any:
    """The Program that ``program_of`` gave, as ``_C.LoadedProgram``, to be run with these ``_C.RunOptions``.
    ``ValueError`` as of ``npugraph.load``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program"
        path.touch(mode=0o600)
        path.write_bytes(program)
        return read(str(path), options)


def deserialize(data: bytes) -> Any:
    """The function that ``serialize`` took. ``ValueError`` as of ``npugraph.load``."""
    line, _, program = data.partition(b"\n")
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(line).items()}
    return load(program, run_options(parse_for_running(options))).callable(boxed=False)


def install() -> None:
    """Makes compiled functions what ``aot_compile`` takes."""
    from torch._dynamo.aot_compile_types import SerializableCallable

    _C.Callable.serialize_compile_artifacts = staticmethod(serialize)
    _C.Callable.deserialize_compile_artifacts = staticmethod(deserialize)
    SerializableCallable.register(_C.Callable)
