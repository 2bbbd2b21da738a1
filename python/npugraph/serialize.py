# SPDX-License-Identifier: Apache-2.0
"""Compiled functions as bytes, for ``torch.compile(fn, backend="npugraph_ex", fullgraph=True).aot_compile(...)``."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npugraph import _C
from npugraph.artifact import Artifact, registry
from npugraph.options import BACKEND
from npugraph.request import request_from_json
from npugraph.saved import read


def program_of(artifact: Any) -> bytes:
    """Returns the saved Program of an artifact or of its C++ half, for a keeper that tests the guards of its graph
    before each call, as Dynamo does. Raises ``ValueError`` if it cannot be saved."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program"
        getattr(artifact, "core", artifact).save(str(path), guarded=False)
        return path.read_bytes()


def serialize(compiled: Any) -> bytes:
    """Returns a line of JSON with the run options of a compiled function, followed by its saved Program. Raises
    ``ValueError`` if it cannot be saved, see ``Artifact.save``."""
    return json.dumps(compiled.options).encode() + b"\n" + program_of(compiled.owner)


def load(program: bytes, options: Any) -> Any:
    """Loads the bytes that ``program_of`` returned as a ``_C.Artifact``, to be run with the ``_C.RunRequest`` in
    ``options``. Raises ``ValueError`` as ``npugraph.load`` does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program"
        path.touch(mode=0o600)
        path.write_bytes(program)
        return read(str(path), options)


def function_of(program: bytes, options: Mapping[str, Any], *, boxed: bool) -> Any:
    """Returns the function that runs the Program in the bytes of ``program_of``, with the run options ``options``. A
    ``boxed`` function takes one list of inputs. ``npugraph.artifacts()`` lists what it runs. Raises ``ValueError`` as
    ``npugraph.load`` does."""
    artifact = Artifact(load(program, request_from_json(options)), dict(options))
    run = artifact.core.callable(boxed=boxed)
    run.owner = artifact
    run.backend = BACKEND
    artifact.runs_as(run)
    registry.add(artifact)
    return run


def deserialize(data: bytes) -> Any:
    """Returns the function whose bytes ``serialize`` returned. Raises ``ValueError`` as ``npugraph.load`` does."""
    line, _, program = data.partition(b"\n")
    return function_of(program, json.loads(line), boxed=False)


def install() -> None:
    """Makes compiled functions serializable, as ``aot_compile`` requires."""
    from torch._dynamo.aot_compile_types import SerializableCallable
    from torch._dynamo.eval_frame import OptimizedModule

    _C.Callable.serialize_compile_artifacts = staticmethod(serialize)
    _C.Callable.deserialize_compile_artifacts = staticmethod(deserialize)
    SerializableCallable.register(_C.Callable)
    OptimizedModule.aot_compile = _aot_compile


def _aot_compile(self: Any, example_inputs: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    """What torch has for compiled functions, for a compiled module."""
    return self.forward.aot_compile(example_inputs)
