# SPDX-License-Identifier: Apache-2.0
"""Programs that ``Artifact.save`` wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from npugraph import _C
from npugraph.fx.dynamo import sources
from npugraph.run_options import parse_for_running, run_options


class SavedProgram:
    """A function: it takes the list of the Program's inputs, in order, and returns the tuple of its outputs."""

    def __init__(self, program: Any) -> None:
        self._name = program.name
        self._inputs = [text for text, _ in program.inputs()]
        self._run = program.callable(boxed=True)

    @property
    def name(self) -> str:
        """Name of the artifact that was saved."""
        return self._name

    @property
    def inputs(self) -> list[str]:
        """The inputs in order, for people: name, type and sizes, and which are of the model or written."""
        return list(self._inputs)

    def __call__(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Runs the Program. ``TypeError`` for anything but a sequence, ``ValueError`` for another number of inputs."""
        if isinstance(inputs, (torch.Tensor, str)) or not isinstance(inputs, Sequence):
            raise TypeError(
                f"{self._name} takes one list with its inputs, got {type(inputs).__name__};{self._wanted()}"
            )
        if len(inputs) != len(self._inputs):
            count = f"{len(self._inputs)} input{'s' * (len(self._inputs) != 1)}"
            raise ValueError(f"{self._name} takes {count}, got {len(inputs)};{self._wanted()}")
        return self._run(list(inputs))  # which empties the list that it is given

    def _wanted(self) -> str:
        return " they are:" + "".join(f"\n  input {i} {text}" for i, text in enumerate(self._inputs))

    def __repr__(self) -> str:
        return f"<npugraph.SavedProgram {self._name}: {', '.join(self._inputs)}>"


def load(
    path: str, model: Any = None, *, options: Mapping[str, Any] | None = None
) -> SavedProgram | Callable[..., tuple[Any, ...]]:
    """Loads what ``Artifact.save`` wrote.

    Without ``model``, a function of the list of the Program's inputs. With the model that was compiled, or another one
    of the same classes and sizes, a function of the other arguments of the compiled function, by position or by name:
    it finds parameters, buffers, numbers and the tensors of caches itself, also when they are replaced, and checks
    devices, dtypes, sizes and strides, all in C++. Neither uses Dynamo. Results are the tuple of the graph's outputs.

    ``options`` are those of the backend that say how a graph is run: a file has none of them, and takes the others from
    its compile.

    Collectives find their process groups by ranks; a group that this process lacks is made, for which all its ranks
    have to load the Program.

    ``FileNotFoundError`` or another ``OSError`` when the file cannot be opened.
    ``ValueError`` when the file is no Program, is damaged, or was made with another torch or for other schemas of its
    operators, when ``model`` lacks an input of the Program, when this process is in none of its groups, or for an
    option that is unknown or acts when a graph is compiled.
    """
    program = read(str(path), run_options(parse_for_running(options)))
    return SavedProgram(program) if model is None else bind(program, model, named_by=model)


def read(path: str, options: Any) -> Any:
    """The Program in a file, as ``_C.LoadedProgram``, with the process groups of this process, to be run with these
    ``_C.RunOptions``. ``OSError`` and ``ValueError`` as of ``load``."""
    with open(path, "rb"):  # Python says best why a file cannot be opened
        pass
    return _C.LoadedProgram(path, _group_name, options)


def _group_name(name: str, ranks: Sequence[int]) -> str:
    from npugraph.groups import name_here

    return name_here(name, ranks)


def bind(program: Any, model: Any, label: str = "", named_by: Any = None) -> Callable[..., tuple[Any, ...]]:
    """A function of the arguments in which the inputs of a Program of ``_C`` are. ``label`` is that of its calls in
    traces of torch's profiler, beside those of the Program's own runs. Arguments that are known by position alone take
    the names of the parameters of ``named_by.forward``. ``ValueError`` as of ``load``."""
    try:
        paths = [sources.parse(source) for _, source in program.inputs()]
    except ValueError as error:
        raise ValueError(f"{program.name} takes inputs that no argument leads to: {error}") from None
    of_model = sources.model_among(paths)
    for path in paths:
        if path.argument == of_model:
            try:
                path.find(model)
            except (AttributeError, KeyError, IndexError, TypeError) as error:
                raise ValueError(
                    f"the model ({type(model).__name__}) has no {path}, which {program.name} takes: {error}"
                ) from None
    names = [name for name in dict.fromkeys(path.argument for path in paths) if name != of_model]
    numbers = {name: i for i, name in enumerate(names)} | {of_model: -1}
    if named_by is not None:
        names = sources.named_by(named_by, names)
    run = program.bind(names, [(numbers[path.argument], path.steps, path.query) for path in paths], model, label)
    run.__name__ = program.name
    run.arguments = tuple(names)
    return run
