# SPDX-License-Identifier: Apache-2.0
"""Calls of Triton kernels under Triton's interpreter become operators of graphs (``fx/triton_kernels.py``).

torch captures kernels that a compiler of Triton compiles. Kernels of the interpreter are objects of another class,
which Dynamo would trace into. Here Dynamo learns that class, and a kernel that is called with fake tensors, as those in
functions of ``torch.library.triton_op`` are, calls its operator.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from npugraph.after_import import after_import
from npugraph.fx.triton_kernels import (
    call_operator,
    check_not_captured,
    constexprs,
    is_recorded,
    launch_of,
    named_arguments,
    on_host,
    type_of,
)


def install() -> None:
    """Makes the changes once a program has imported Triton's interpreter."""
    after_import("triton.runtime.interpreter", _install)


def _install(interpreter: ModuleType) -> None:
    from torch._dynamo.variables.builder import VariableBuilder
    from triton.runtime.autotuner import Autotuner

    kind = interpreter.InterpretedFunction
    run = kind.run

    @functools.wraps(run)
    def run_or_record(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        if not warmup and is_recorded((args, kwargs)):
            call_operator(self, grid, args, kwargs)
        else:
            check_not_captured(self, (args, kwargs))
            own = {name: on_host(value) for name, value in kwargs.items()}
            run(self, *map(on_host, args), grid=grid, warmup=warmup, **own)

    kind.run = run_or_record
    for traces_numpy in (False, True):
        VariableBuilder._type_dispatch_impl(traces_numpy).update({kind: _wrap, Autotuner: _wrap})


def _wrap(builder: Any, kernel: Any) -> Any:
    from torch._dynamo.guards import GuardBuilder

    builder.install_guards(GuardBuilder.ID_MATCH)
    return _variable_class()(kernel, None, None, source=builder.source)


@functools.cache
def _variable_class() -> type:
    """The class of Dynamo's variables for kernels. Importing Dynamo takes long, so it is made when it is used."""
    from torch._dynamo.variables.base import VariableTracker
    from torch._dynamo.variables.dicts import ConstDictVariable
    from torch._dynamo.variables.functions import TritonKernelVariable, dynamo_triton_hopifier_singleton
    from torch._dynamo.variables.lists import BaseListVariable
    from torch._dynamo.variables.tensor import SymNodeVariable

    build = VariableTracker.build

    class InterpretedKernelVariable(TritonKernelVariable):
        """A kernel, with a grid or yet without. A call of it is a call of its operator."""

        def call_function(self, tx: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
            if self.grid is None:
                dynamo_triton_hopifier_singleton.raise_unsupported("a call without a grid, as in kernel[grid](...)")
            kernel, configured = _configured(self.kernel)
            kwargs = kwargs | {name: build(tx, value) for name, value in configured.items()}
            named = named_arguments(kernel, args, kwargs)
            for name in constexprs(kernel) & named.keys():
                named[name] = self.specialize_symbolic(named[name])
            grid = self._grid(tx, named)
            launch = launch_of(kernel, named, _type_of_variable, _constant_of, _node_of)
            try:
                operator = build(tx, launch.operator())
            except TypeError as error:
                dynamo_triton_hopifier_singleton.raise_unsupported(str(error))
            return operator.call_function(tx, [*(named[name] for name, _ in launch.operands), grid], {})

        def call_method(self, tx: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
            """``run`` is how ``triton.heuristics`` calls the kernel."""
            if name != "run":
                return super().call_method(tx, name, args, kwargs)
            others = {key: value for key, value in kwargs.items() if key not in ("grid", "warmup")}
            return type(self)(self.kernel, None, kwargs["grid"]).call_function(tx, args, others)

        def _grid(self, tx: Any, named: dict[str, Any]) -> Any:
            grid = self.grid.realize()
            if not isinstance(grid, BaseListVariable):
                grid = grid.call_function(tx, [ConstDictVariable({build(tx, k): v for k, v in named.items()})], {})
            return build(tx, list).call_function(tx, [grid], {})

    def _type_of_variable(variable: Any) -> str | None:
        if variable.is_tensor():
            return "Tensor"
        if isinstance(variable, SymNodeVariable):
            return {int: "SymInt", float: "float", bool: "bool"}[variable.python_type()]
        return type_of(variable.as_python_constant()) if variable.is_python_constant() else None

    return InterpretedKernelVariable


def _configured(kernel: Any) -> tuple[Any, dict[str, Any]]:
    """The kernel under ``triton.autotune``, and the parameters that its only configuration sets."""
    from torch._dynamo.variables.functions import dynamo_triton_hopifier_singleton
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.interpreter import InterpretedFunction

    if not isinstance(kernel, Autotuner):
        return kernel, {}
    if len(kernel.configs) != 1 or not isinstance(kernel.fn, InterpretedFunction):
        dynamo_triton_hopifier_singleton.raise_unsupported(
            f"the kernel {kernel.base_fn.__name__} is autotuned; Triton's interpreter can measure nothing, so a graph "
            "takes such a kernel only with one configuration, and with no other decorator between"
        )
    return kernel.fn, kernel.configs[0].kwargs


def _constant_of(variable: Any) -> Any:
    """The value of a variable that cannot be an operand. One whose value Dynamo does not know breaks the graph."""
    return variable.as_python_constant()


def _node_of(variable: Any) -> Any:
    return variable.as_proxy().node
