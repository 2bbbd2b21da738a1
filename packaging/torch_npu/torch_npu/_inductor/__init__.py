# SPDX-License-Identifier: Apache-2.0
"""The vendor's Inductor backend has no part here: torch.compile works on npu with the backend ``npugraph_ex``."""

from __future__ import annotations

from typing import NoReturn


def _refuse() -> NoReturn:
    raise RuntimeError(
        "Inductor, torch.compile's default backend, makes no code for npu: "
        'use torch.compile(..., backend="npugraph_ex")'
    )


class _NoCode(type):
    def __getattr__(cls, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        _refuse()


class Scheduling(metaclass=_NoCode):
    """What Inductor asks for code for npu, by these four names of torch.npu: whatever it asks raises RuntimeError."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        _refuse()


PythonWrapperCodegen = CppWrapperCodegen = WrapperFxCodegen = Scheduling
