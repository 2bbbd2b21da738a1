# SPDX-License-Identifier: Apache-2.0
"""Descriptions of messages from the text of ``.proto`` files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest


def descriptor_set(text: str, name: str) -> bytes:
    """Returns what protoc makes of a file with this text and name: a ``FileDescriptorSet``."""
    protoc = pytest.importorskip("grpc_tools.protoc", reason="the package grpcio-tools brings protoc")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.desc"
        (Path(folder) / name).write_text(text)
        assert protoc.main(["protoc", f"-I{folder}", f"--descriptor_set_out={out}", name]) == 0
        return out.read_bytes()
