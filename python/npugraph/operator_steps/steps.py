# SPDX-License-Identifier: Apache-2.0
"""Which of the six steps an operator has, as far as torch and npugraph know without running it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch._library.utils import can_generate_trivial_fake_impl

from npugraph import _C
from npugraph.fx.schema import core_name, written_arguments
from npugraph.operator_steps import code

_KEYS = {"cpu": "CPU", "npu": "PrivateUse1"}
_COMPOSITE = ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "CompositeExplicitAutogradNonFunctional")
NAMES = {1: "schema", 2: "kernel", 3: "eager mode", 4: "Meta function", 5: "functionalisation", 6: "converter"}


class State(enum.Enum):
    PRESENT = "ok"
    MISSING = "missing"
    UNNEEDED = "not needed"


class Step(NamedTuple):
    """A step of one operator. ``code`` is to be pasted if the step is missing."""

    number: int
    state: State
    text: str  # why it is missing or not needed, or what there is
    code: str = ""

    @property
    def name(self) -> str:
        return NAMES[self.number]

    @property
    def is_missing(self) -> bool:
        return self.state is State.MISSING

    def __str__(self) -> str:
        line = f"step {self.number}, {self.name}: {self.state.value}" + (f" ({self.text})" if self.text else "")
        return line + ("\n\n" + code.indented(self.code) if self.code else "")


def steps_of(operator: Any, device: str = "cpu") -> list[Step]:
    """The steps of an OpOverload for tensors of "cpu" or "npu", in their order."""
    return [
        schema(operator),
        *kernels(operator, device),
        meta(operator),
        functionalisation(operator),
        converter(operator),
    ]


def device_of(values: Iterable[Any]) -> str:
    """The kind of device of a call: "npu" if one of its tensors is there, else "cpu"."""
    return "npu" if any(isinstance(value, torch.Tensor) and value.device.type == "npu" for value in values) else "cpu"


def unknown(name: str) -> Step:
    """The step that an operator "ns::name" lacks which torch does not know."""
    return Step(1, State.MISSING, f"torch knows no operator {name}", code.schema_code(name))


def schema(operator: Any) -> Step:
    return Step(1, State.PRESENT, str(operator._schema))


def kernels(operator: Any, device: str) -> list[Step]:
    """Steps 2 and 3: a kernel, and that eager mode reaches it."""
    name = operator.name()
    if library := _C.library_of(core_name(operator)):
        return [Step(2, State.PRESENT, f"in '{library}'"), Step(3, State.PRESENT, "npugraph.load_library")]
    if kernel := next((key for key in (_KEYS[device], *_COMPOSITE) if _has(name, key)), None):
        return [Step(2, State.PRESENT, f"registered for {kernel}"), Step(3, State.PRESENT, "by torch's dispatcher")]
    if device == "npu" and _has(name, "CPU"):
        text = "registered for CPU, which npu has as well"
        return [Step(2, State.PRESENT, text), Step(3, State.PRESENT, "by torch's dispatcher")]
    lacking = f"{name} has no kernel for {device}"
    return [
        Step(2, State.MISSING, lacking, code.kernel_code(operator, _KEYS[device])),
        Step(3, State.MISSING, "there is no kernel that eager mode could call"),
    ]


def meta(operator: Any) -> Step:
    if decomposes(operator):
        return Step(4, State.UNNEEDED, "the operator consists of others")
    if has_meta(operator):
        return Step(4, State.PRESENT, "")
    if can_generate_trivial_fake_impl(operator):
        return Step(4, State.UNNEEDED, "the operator makes no tensors")
    return Step(
        4,
        State.MISSING,
        f"{operator.name()} has no Meta function, which says sizes, type and strides of each result, and graphs break "
        "at it",
        code.meta_code(operator),
    )


def functionalisation(operator: Any) -> Step:
    written = written_arguments(operator)
    if not written:
        return Step(5, State.UNNEEDED, "the operator writes no argument")
    if _has(operator.name(), "Functionalize"):
        return Step(5, State.PRESENT, "written by hand")
    returned = [result for result in operator._schema.returns if result.alias_info is not None]
    if not returned:
        return Step(5, State.PRESENT, f"torch does it: the schema says that {', '.join(written)} is written")
    return Step(
        5,
        State.MISSING,
        f"{operator.name()} returns an argument that it writes, and torch makes only operators functional that do not",
        code.functional_schema_code(operator),
    )


def converter(operator: Any) -> Step:
    from npugraph.ge.converters import find, user_operators  # imports protobuf

    if find(operator) is not None:
        return Step(6, State.PRESENT, "registered")
    if decomposes(operator):
        return Step(6, State.UNNEEDED, "the operator consists of others")
    if not (why := user_operators.why_none(operator)):
        return Step(6, State.PRESENT, "it follows from the schema")
    return Step(6, State.MISSING, f"only GE mode needs it; {why}", code.converter_code(operator))


def decomposes(operator: Any) -> bool:
    """Whether graphs have the operators of its kernel in place of the operator itself."""
    return _has(operator.name(), "CompositeImplicitAutograd")


def has_meta(operator: Any) -> bool:
    entry = torch._library.simple_registry.singleton.find(operator.name())
    return entry.fake_impl.kernel is not None or any(
        _has(operator.name(), key) for key in ("Meta", "CompositeExplicitAutograd")
    )


def _has(name: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
