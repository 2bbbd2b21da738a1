# SPDX-License-Identifier: Apache-2.0
"""Loads Programs that ``Artifact.save`` wrote."""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from npugraph.artifact import CALLER
from npugraph.fx.dynamo import sources
from npugraph.fx.dynamo.callers import CalledProgram, NotCallable
from npugraph.log import logger
from npugraph.request import parse_for_running, run_request
from npugraph.stored.programs import read


class SavedProgram:
    """A function of the list of the Program's inputs, in order. It returns the tuple of the Program's outputs."""

    def __init__(self, program: Any) -> None:
        self._name = program.name
        self._inputs = [text for text, _ in program.inputs()]
        self._run = program.callable(boxed=True)

    @property
    def name(self) -> str:
        """The name of the artifact that was saved."""
        return self._name

    @property
    def inputs(self) -> list[str]:
        """The inputs in order, described for people: name, type, sizes, and whether the input belongs to the model or
        is written."""
        return list(self._inputs)

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Runs the Program. Raises ``TypeError`` for anything but a sequence of inputs, ``ValueError`` for another
        number of inputs."""
        if isinstance(inputs, (torch.Tensor, str)) or not isinstance(inputs, Sequence):
            raise TypeError(
                f"{self._name} takes one list with its inputs, got {type(inputs).__name__};{self._wanted()}"
            )
        if len(inputs) != len(self._inputs):
            count = f"{len(self._inputs)} input{'s' * (len(self._inputs) != 1)}"
            raise ValueError(f"{self._name} takes {count}, got {len(inputs)};{self._wanted()}")
        return self._run(list(inputs))  # a copy, because the call empties the list that it gets

    def _wanted(self) -> str:
        return " they are:" + "".join(f"\n  input {i} {text}" for i, text in enumerate(self._inputs))

    def __repr__(self) -> str:
        return f"<npugraph.SavedProgram {self._name}: {', '.join(self._inputs)}>"


def load(
    path: str, model: Any = None, *, options: Mapping[str, Any] | None = None
) -> SavedProgram | Callable[..., tuple[Any, ...]]:
    """Loads a Program that ``Artifact.save`` wrote. Returns a function whose result is the tuple of the graph's
    outputs. Dynamo takes no part in its calls.

    Without ``model``, the function takes the list of the Program's inputs. ``model`` is the model that was compiled, or
    another one of the same classes and sizes. With it, the function takes the other arguments of the compiled function,
    by position or by name. It finds parameters, buffers, numbers and the tensors of caches itself, also after they were
    replaced, and checks devices, dtypes, sizes and strides, all in C++.

    ``options`` are the options of the backend that say how a graph is run. A file has none of these; it has the other
    options from its compile.

    Collectives find their process groups by ranks. A group that this process lacks is made; all its ranks then have to
    load the Program.

    Raises ``FileNotFoundError`` or another ``OSError`` if the file cannot be opened.
    Raises ``ValueError`` if the file is no Program, is damaged, or was made with another torch or for other schemas of
    its operators, if ``model`` lacks an input of the Program, if this process is in none of its groups, and for an
    option that is unknown or acts only in a compile.
    """
    program = read(str(path), run_request(parse_for_running(options)))
    if model is None:
        return SavedProgram(program)
    owner = _owner(model)
    run = bind(program, owner, named_by=owner)
    if CALLER not in program.facts():
        return run
    described = json.loads(program.facts()[CALLER])
    try:
        return CalledProgram(run, model, [source for _, source in program.inputs()], described)
    except NotCallable as reason:
        logger.info("%s returns the outputs of its graph: %s", program.name, reason)
        return run


def _owner(model: Any) -> Any:
    """The object that holds parameters and buffers of a model or of its method. None for a function, which holds none
    itself: what it closes over is found like its arguments."""
    if isinstance(model, types.FunctionType):
        return None
    return model.__self__ if isinstance(model, types.MethodType) else model


def bind(program: Any, model: Any, label: str = "", named_by: Any = None) -> Callable[..., tuple[Any, ...]]:
    """Returns a function of the arguments that contain the inputs of ``program``, a Program of ``_C``. Its calls have
    the label ``label`` in traces of torch's profiler, beside the labels of the Program's own runs. Arguments that are
    known by position alone take the names of the parameters of ``named_by.forward``. Raises ``ValueError`` as ``load``
    does."""
    try:
        paths = [sources.parse(source) for _, source in program.inputs()]
    except ValueError as error:
        raise ValueError(f"{program.name} takes inputs that no argument leads to: {error}") from None
    of_model = None if model is None else sources.model_among(paths)
    for path in paths:
        if path.argument == of_model:
            try:
                path.find(model)
            except (AttributeError, KeyError, IndexError, TypeError) as error:
                raise ValueError(
                    f"the model ({type(model).__name__}) has no {path}, which {program.name} takes: {error}"
                ) from None
    names = [name for name in dict.fromkeys(path.argument for path in paths) if name != of_model]
    numbers = {of_model: -1} | {name: i for i, name in enumerate(names)}
    positions = tuple(names)
    if named_by is not None:
        names = sources.named_by(named_by, names)
    run = program.bind(names, [(numbers[path.argument], path.steps, path.query) for path in paths], model, label)
    run.__name__ = program.name
    run.arguments = tuple(names)
    run.positions = positions  # the same names, but for arguments that are known by position alone
    return run
