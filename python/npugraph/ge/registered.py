# SPDX-License-Identifier: Apache-2.0
"""What programs ask about operators of Ascend IR before they use them."""

from __future__ import annotations

from collections.abc import Sequence

from npugraph.ge import ir

Names = list[tuple[str, str]]


def get_registered_ir_def(op_type: str) -> tuple[bool, Names, Names, Names]:
    """Whether Ascend IR has the operator, and its inputs, outputs and attributes in order. Inputs and outputs are
    pairs of a name and ``required``, ``optional`` or ``dynamic``, attributes pairs of a name and a class of
    ``torchair.ge.attr``."""
    operator = ir.find(op_type)
    if operator is None:
        return False, [], [], []
    inputs, outputs = (
        [(operand.name, operand.arity.value) for operand in operands]
        for operands in (operator.inputs, operator.outputs)
    )
    return True, inputs, outputs, [(attribute.name, attribute.kind.__name__) for attribute in operator.attributes]


def check_cann_compat(op_type: str, optional_inputs: Sequence[str] = (), optional_attrs: Sequence[str] = ()) -> bool:
    """Whether Ascend IR has an operator with these optional inputs and these attributes. Older versions of operators
    lack some."""
    is_known, inputs, _, attributes = get_registered_ir_def(op_type)
    has_inputs = {name for name, arity in inputs if arity == "optional"}.issuperset(optional_inputs)
    has_attributes = {name for name, _ in attributes}.issuperset(optional_attrs)
    return is_known and has_inputs and has_attributes
