# SPDX-License-Identifier: Apache-2.0
"""Adds to the dependencies of the package `npugraph` the torch that it is built for. The C++ half is bound to the minor
version of torch whose headers it was compiled with."""

import importlib.metadata
from collections.abc import Mapping
from typing import Any


def dynamic_metadata(settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, list[str]]:
    major, minor, _ = importlib.metadata.version("torch").split(".", 2)
    return {"dependencies": [f"torch=={major}.{minor}.*", *settings["dependencies"]]}


def dynamic_wheel(settings: Mapping[str, Any]) -> dict[str, bool]:
    """A wheel made of a source distribution may be for another torch."""
    return {"dependencies": True}
