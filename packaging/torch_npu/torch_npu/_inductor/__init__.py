# SPDX-License-Identifier: Apache-2.0
"""Stands in for the vendor's Inductor backend, which is not here. torch.compile works on npu with the backend
``npugraph_ex``."""

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
    """The class that Inductor finds under four names of torch.npu when it makes code for npu. Any use of it raises
    RuntimeError."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        _refuse()


PythonWrapperCodegen = CppWrapperCodegen = WrapperFxCodegen = Scheduling
