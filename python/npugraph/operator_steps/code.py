# SPDX-License-Identifier: Apache-2.0
"""Code for a step that an operator lacks, to be pasted and completed."""

from __future__ import annotations

from typing import Any

from npugraph import _C
from npugraph.fx.schema import attribute_kind, core_name, is_tensor, names_of_results, new_results, written_arguments


def schema_code(name: str) -> str:
    """The definition of an operator "ns::name" of which nothing is known."""
    namespace, local = name.split("::")
    return (
        f'library = torch.library.Library("{namespace}", "FRAGMENT")\n'
        f'library.define("{local}(Tensor x) -> Tensor")  # its arguments and results\n'
        "# An operator of a library of kernels: npugraph.load_library(PATH)"
    )


def kernel_code(operator: Any, key: str) -> str:
    """A kernel for the dispatch key ``key``, "CPU" or "PrivateUse1"."""
    body = "...  # write the arguments that the schema marks" if not operator._schema.returns else "return ..."
    return f'@torch.library.impl("{operator.name()}", "{key}")\n{_function(operator, body)}'


def meta_code(operator: Any) -> str:
    tensors = [argument.name for argument in operator._schema.arguments if str(argument.type) == "Tensor"]
    new = f"torch.empty_like({tensors[0]})" if tensors else "torch.empty(..., device='meta')"
    body = f"return {', '.join([new] * len(new_results(operator)))}  # sizes, type and strides of each result"
    return f'@torch.library.register_fake("{operator.name()}")\n{_function(operator, body)}'


def functional_schema_code(operator: Any) -> str:
    """The schema with what it writes as arguments alone."""
    schema = str(operator._schema)
    arguments, _, _ = schema.rpartition(" -> ")
    fresh = [str(result.type) for result in new_results(operator)]
    result = f"({', '.join(fresh)})" if len(fresh) != 1 else fresh[0]
    return f'library.define("{arguments.split("::")[1]} -> {result}")  # returns no argument'


def converter_code(operator: Any) -> str:
    schema, parameters = operator._schema, parameters_of(operator._schema)
    op_type = _C.ir_name(core_name(operator))
    tensors = [argument.name for argument in schema.arguments if is_tensor(argument)]
    others = [argument for argument in schema.arguments if not is_tensor(argument)]
    written, fresh = written_arguments(operator), names_of_results(operator)
    lists = [argument.name for argument in schema.arguments if "List[" in str(argument.type)]
    outputs = [f"({name!r}, len({name}))" if name in lists else repr(name) for name in [*written, *fresh]]
    lines = [
        f"@torchair.register_fx_node_ge_converter(torch.ops.{operator})",
        f"def convert({', '.join([*parameters, *([] if '*' in parameters else ['*']), 'meta_outputs'])}):",
        f"    {'made = ' if written else 'return '}torchair.ge.custom_op(",
        f'        "{op_type}",',
        f"        inputs={{{', '.join(f'{name!r}: {name}' for name in tensors)}}},",
        *([f"        attrs={{{', '.join(map(_attribute, others))}}},"] if others else []),
        f"        outputs=[{', '.join(outputs)}],",
        "    )",
    ]
    if written:
        lines.append(f"    return {_of_outputs(len(written), len(fresh))}")
    return "\n".join(lines)


def indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())


def _of_outputs(num_written: int, fresh: int) -> str:
    """What a converter returns of the outputs: those that are no inputs."""
    if fresh == 0:
        return "None  # the outputs are inputs"
    return f"made[{num_written}]" if fresh == 1 else f"list(made[{num_written}:])"


def _attribute(argument: Any) -> str:
    kind = attribute_kind(argument).replace("Number", "Float") or "Float"
    return f"{argument.name!r}: torchair.ge.attr.{kind}({argument.name})"


def parameters_of(schema: Any) -> list[str]:
    """The parameters of a Python function over the arguments of a schema."""
    parameters = []
    for argument in schema.arguments:
        if argument.kwarg_only and "*" not in parameters:
            parameters.append("*")
        default = f"={argument.default_value!r}" if argument.has_default_value() else ""
        parameters.append(argument.name + default)
    return parameters


def _function(operator: Any, body: str) -> str:
    name = operator._schema.name.split("::")[1]
    return f"def {name}({', '.join(parameters_of(operator._schema))}):\n    {body}"
