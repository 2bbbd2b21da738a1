# SPDX-License-Identifier: Apache-2.0
"""The function around a graph of Dynamo, as data for another process: under which conditions on its arguments the graph
may take its place, and how it makes its result of the outputs."""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import importlib
import inspect
import re
import types
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch._C._dynamo import eval_frame

from npugraph.fx.dynamo import recipe, restricted
from npugraph.python_versions import qualified_name

Place = tuple[str, str | int | None]

_ROOT = re.compile(r"L\['(\w+)'\](?:\[('\w+'|\d+)\])?")
_GLOBAL = re.compile(r"\bG\['(\w+)'\]")
_MADE_BY_DYNAMO = re.compile(r"_\d+_c\d+$")
# Values in a condition: L['x'], L['self'].factor, L['xs'][0].
_VALUE = re.compile(r"L\['\w+'\](?:\.(?!size\(|stride\(|storage_offset\()\w+|\['\w+'\]|\[\d+\](?!\())*")


class NotCallable(Exception):
    """A Program cannot be called as the function was."""


@dataclasses.dataclass(frozen=True)
class Caller:
    """A function that Dynamo compiles: its code, its global variables, and the name by which its new bytecode calls the
    graph."""

    code: weakref.ref[types.CodeType]
    variables: dict[str, Any]
    graph: str
    outputs: int  # of the graph

    @classmethod
    def of(cls, gm: fx.GraphModule) -> Caller | None:
        """The caller of a graph that Dynamo compiles at the moment. None if it compiles none."""
        from torch._dynamo.symbolic_convert import InstructionTranslator

        graph = gm.meta.get("backend_id")
        try:
            root = InstructionTranslator.current_tx().output.root_tx
        except AttributeError:
            return None
        if graph is None:
            return None
        return cls(weakref.ref(root.f_code), root.f_globals, graph, len(gm.graph.output_node().args[0]))

    def describe(self) -> dict[str, Any] | None:
        """Returns plain data from which ``CalledProgram`` makes the function. None if Dynamo has forgotten it, or if it
        does what data cannot describe."""
        code = self.code()
        entries = () if code is None else eval_frame._debug_get_cache_entry_list(code)
        entry = next((entry for entry in entries if self.graph in entry.code.co_names), None)
        if entry is None:
            return None
        try:
            outputs = [f"out[{i}]" for i in range(self.outputs)]
            result = recipe.describe(entry.code, self.graph, self.variables, outputs)
            modules = self._modules(result)
        except recipe.NotDescribed:
            return None
        conditions = [text for text in _guards(entry.guard_manager) if _is_of_arguments(text)]
        return {"function": signature_of(code), "result": result, "conditions": conditions, "modules": modules}

    def _modules(self, text: str) -> dict[str, str]:
        modules = {}
        for name in _GLOBAL.findall(text):
            value = self.variables.get(name)
            if isinstance(value, types.ModuleType):
                modules[name] = value.__name__
            elif _MADE_BY_DYNAMO.search(name):
                raise recipe.NotDescribed(f"it depends on {name}, which other processes do not have")
        return modules


def _guards(manager: Any) -> Iterator[str]:
    """The guards of Dynamo as text. Those on several arguments, such as that two are one object, come last."""
    yield from dict.fromkeys(manager.code_parts)
    for guard in manager.root.get_epilogue_lambda_guards():
        for text in guard.verbose_code_parts():
            yield text.partition("#")[0].rstrip()


def _is_of_arguments(text: str) -> bool:
    # The Program does not depend on the base of a view, whose sizes Dynamo has symbols for.
    if "L[" not in text or "G[" in text or "._base" in text:
        return False
    with contextlib.suppress(restricted.Refused):
        restricted.expression(text)
        return True
    return False


def signature_of(code: types.CodeType) -> list[str]:
    """The name of a function, and those of its parameters."""
    flags = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return [qualified_name(code), *code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + flags]]


class Variables(dict):  # type: ignore[type-arg]
    """The global names in Dynamo's sources: modules by the names that Dynamo gave them, builtins, and for all other
    names the variables of the function's module."""

    def __init__(self, function: Any, modules: Mapping[str, str]) -> None:
        super().__init__((name, importlib.import_module(module)) for name, module in modules.items())
        self._globals = function.__globals__

    def __missing__(self, name: str) -> Any:
        return vars(builtins) if name.startswith("__builtins_dict__") else self._globals[name]


def local_variables(function: Any, signature: inspect.Signature, args: Any, kwargs: Any) -> dict[str, Any]:
    """Returns what Dynamo calls L: the arguments by name, and the variables that the function closes over. Raises
    ``TypeError`` as a call does."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        arguments[name] = cell.cell_contents
    return arguments


def place_of(argument: str, sources: Sequence[str]) -> Place | None:
    """Returns where an argument of a bound Program with inputs of these sources is among the local variables."""
    for source in sources:
        found = _ROOT.match(source)
        root, key = found.groups() if found else ("", None)
        if root == argument:
            return root, None
        if root == "kwargs" and key == repr(argument):
            return root, argument
        if root == "args" and argument == f"argument_{key}":
            return root, int(key)
    return None


def follow(place: Place, arguments: Mapping[str, Any]) -> Any:
    root, key = place
    return arguments[root] if key is None else arguments[root][key]


def function_of(model: Any) -> tuple[types.FunctionType, tuple[Any, ...]]:
    """The Python function that a call of a model or function runs, and the arguments in front of those of the call.
    Raises ``NotCallable`` if there is none."""
    called = model.forward if isinstance(model, torch.nn.Module) else model
    function, first = (called.__func__, (called.__self__,)) if isinstance(called, types.MethodType) else (called, ())
    if not isinstance(function, types.FunctionType):
        raise NotCallable(f"{type(model).__name__} runs no Python function")
    return function, first


class CalledProgram:
    """A bound Program that takes the arguments of the function that was compiled and returns its result. A call raises
    ``TypeError`` for arguments that the function does not take, ``ValueError`` for arguments that the Program is not
    for."""

    def __init__(self, run: Any, model: Any, sources: Sequence[str], described: Mapping[str, Any]) -> None:
        self.__name__ = run.__name__
        self._run = run
        self._finish = restricted.function(described["result"], recipe.HELPERS)
        self._function, self._first = function_of(model)
        self._variables = Variables(self._function, described["modules"])
        self._signature = inspect.signature(self._function, follow_wrapped=False)
        places = [place_of(name, sources) for name in run.positions]
        is_same = signature_of(self._function.__code__) == described["function"]
        self._places = places if is_same and None not in places else None
        if self._places is None and "L[" in described["result"]:
            raise NotCallable("its result needs arguments of the function that was compiled")
        self.arguments = run.arguments if self._places is None else self._parameters()
        self._conditions = self._conditions_of_calls(described["conditions"]) if self._places is not None else []

    def _parameters(self) -> tuple[str, ...]:
        names = tuple(self._signature.parameters)
        return names if self._is_packed() else names[len(self._first) :]

    def _is_packed(self) -> bool:
        """Whether the first argument is not by itself, as in ``def call(*args)``."""
        kinds = [parameter.kind for parameter in self._signature.parameters.values()]
        return kinds[:1] == [inspect.Parameter.VAR_POSITIONAL]

    def _conditions_of_calls(self, texts: Sequence[str]) -> list[str]:
        """Raises ``ValueError`` for a condition on the model that does not hold."""
        if not self._first:
            return list(texts)
        first = next(iter(self._signature.parameters))
        local = {first: self._first if self._is_packed() else self._first[0]}
        owner = f"L[{first!r}]" + "[0]" * self._is_packed()
        of_calls = [text for text in texts if "L[" in text.replace(owner, "").replace("L['func']", "")]
        for text in texts:
            if text not in of_calls and "L['func']" not in text and not _holds(text, local, self._variables):
                raise ValueError(
                    f"{self.__name__} was compiled for a model of which {text} is true{_told(text, local)}"
                )
        return of_calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._places is None:
            return self._finish({}, self._variables, self._run(*args, **kwargs))
        local, given = self._given(args, kwargs)
        return self._finish(local, self._variables, self._run(*given))

    def time_tasks(self, times: int, *args: Any, **kwargs: Any) -> float:
        """Returns the nanoseconds of the tasks of such a call alone, the mean of ``times`` runs. Each of them writes
        what a call writes."""
        if self._places is not None:
            args, kwargs = self._given(args, kwargs)[1], {}
        return self._run.time_tasks(times, *args, **kwargs)

    def forget(self) -> None:
        """Forgets where inputs were, also parameters that stay where they were first found."""
        self._run.forget()

    def _given(self, args: Any, kwargs: Any) -> tuple[dict[str, Any], list[Any]]:
        try:
            local = local_variables(self._function, self._signature, (*self._first, *args), kwargs)
        except TypeError as error:
            raise TypeError(f"{self.__name__}({', '.join(self.arguments)}): {error}") from None
        for text in self._conditions:
            if not _holds(text, local, self._variables):
                raise ValueError(
                    f"{self.__name__} was compiled for arguments of which {text} is true{_told(text, local)}"
                )
        return local, [follow(place, local) for place in self._places]

    def _refusal(self, what: str, text: str, local: Mapping[str, Any]) -> str:
        return f"{self.__name__} was compiled for {what} of which {text} is true{_told(text, local)}"

    def __repr__(self) -> str:
        return f"<npugraph.CalledProgram {self.__name__}({', '.join(self.arguments)})>"


def _holds(text: str, local: Mapping[str, Any], variables: Mapping[str, Any]) -> bool:
    try:
        return bool(restricted.evaluate(text, local, variables))
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, ArithmeticError, RuntimeError):
        return False


def _told(text: str, local: Mapping[str, Any]) -> str:
    """The values that a condition speaks of: "; L['n'] is 4"."""
    told = []
    for source in dict.fromkeys(match[0] for match in _VALUE.finditer(text)):
        with contextlib.suppress(Exception):  # the user's own properties may raise anything
            told.append(f"{source} is {_short(restricted.evaluate(source, local, {}))}")
    return f"; {' and '.join(told)}" if told else ""


def _short(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
