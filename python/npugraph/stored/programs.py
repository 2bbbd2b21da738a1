# SPDX-License-Identifier: Apache-2.0
"""Saved Programs, as files and as bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from npugraph import _C
from npugraph.artifact import Artifact, registry
from npugraph.options import BACKEND
from npugraph.request import request_from_json


def bytes_of(artifact: Any) -> bytes:
    """Returns the saved Program of an artifact or of its C++ half, for a keeper that tests the guards of its graph
    before each call, as Dynamo does. Raises ``ValueError`` if it cannot be saved."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program"
        getattr(artifact, "core", artifact).save(str(path), guarded=False)
        return path.read_bytes()


def read(path: str, options: Any) -> Any:
    """Returns the Program in a file as a ``_C.Artifact`` with process groups of this process, to be run with the
    ``_C.RunRequest`` in ``options``. Raises ``OSError`` and ``ValueError`` as ``load`` does."""
    with open(path, "rb"):  # Python's own error says best why a file cannot be opened
        pass
    return _C.Artifact.load(path, _group_name, options)


def _group_name(name: str, ranks: Sequence[int]) -> str:
    from npugraph.groups import name_here

    return name_here(name, ranks)


def load(program: bytes, options: Any) -> Any:
    """Loads the bytes that ``bytes_of`` returned as a ``_C.Artifact``, to be run with the ``_C.RunRequest`` in
    ``options``. Raises ``ValueError`` as ``npugraph.load`` does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program"
        path.touch(mode=0o600)
        path.write_bytes(program)
        return read(str(path), options)


def function_of(program: bytes, options: Mapping[str, Any], *, boxed: bool) -> Any:
    """Returns the function that runs the Program in the bytes of ``bytes_of``, with the run options ``options``. A
    ``boxed`` function takes one list of inputs. ``npugraph.artifacts()`` lists what it runs. Raises ``ValueError`` as
    ``npugraph.load`` does."""
    artifact = Artifact(load(program, request_from_json(options)), dict(options))
    run = artifact.core.callable(boxed=boxed)
    run.owner = artifact
    run.backend = BACKEND
    artifact.runs_as(run)
    registry.add(artifact)
    return run
