# SPDX-License-Identifier: Apache-2.0
"""What scripts that build a graph again (``script.py``) say of parts that no builder says."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format

from npugraph.ge import proto


def put(message: Any, text: str) -> None:
    """Makes ``message`` what the text says, and nothing else."""
    message.Clear()
    text_format.Parse(text, message)


def merge(message: Any, text: str) -> None:
    """Adds what the text says to ``message``."""
    text_format.Merge(text, message)


def tensor_def(text: str) -> Any:
    """The ``TensorDef`` that the text says."""
    return text_format.Parse(text, proto.TensorDef())
