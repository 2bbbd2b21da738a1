# SPDX-License-Identifier: Apache-2.0
# Written by scripts/stubs.
import collections.abc
import typing
from typing import Any, overload

import torch

import npugraph._C
from npugraph._C import Artifact, CompileRequest
def compile(model_def: bytes, request: CompileRequest, device: torch.device) -> Artifact: ...
def find_operator(name: str) -> object: ...
def imported_types() -> set[str]: ...
def operator_names() -> list[str]: ...
