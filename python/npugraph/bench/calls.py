# SPDX-License-Identifier: Apache-2.0
"""The compiled graphs of a script, each with a call that can be made again when the script has ended."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import distributed, fx

from npugraph import host_device
from npugraph.artifact import Artifact
from npugraph.backend import CompiledGraph
from npugraph.driver.entry import describe_input
from npugraph.fx.dynamo.graph_names import name_of


class EnoughCalls(BaseException):
    """Ends a script that has made as many calls as were asked for."""


class Settings:
    """What torch has set at a call and a graph depends on: the modes of gradients, and autocast for some devices."""

    def __init__(self, devices: set[str]) -> None:
        self._grad = torch.is_grad_enabled()
        self._inference = torch.is_inference_mode_enabled()
        self._autocast = {d: torch.get_autocast_dtype(d) for d in devices if torch.is_autocast_enabled(d)}

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Sets them for its block."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.inference_mode(self._inference))
            stack.enter_context(torch.set_grad_enabled(self._grad))
            for device, dtype in self._autocast.items():
                stack.enter_context(torch.autocast(device, dtype))
            yield


@dataclasses.dataclass
class Call:
    """A call to make again. ``arguments`` are copies, except for parameters. ``written`` has the positions of those
    that the call writes, and ``has_gradients`` says whether the script computed gradients of its results."""

    arguments: list[Any]
    settings: Settings
    written: list[int]
    has_gradients: bool = False


class Function:
    """A compiled graph. ``eager`` is Dynamo's graph, which runs operator by operator. ``shapes`` are those of the
    arguments of the first call that are neither parameters nor buffers. ``problem`` says why the first call cannot be
    made again."""

    def __init__(self, name: str, eager: fx.GraphModule, run: Callable[..., Any]) -> None:
        self.name, self.eager, self.run = name, eager, run
        inputs = eager.graph.find_nodes(op="placeholder")
        self.is_dynamic = any(_is_dynamic(node.meta.get("example_value")) for node in inputs)
        self.calls = 0
        self.alike = 0  # calls with the sizes of the first call
        self.shapes: list[str] = []
        self.call: Call | None = None
        self.problem = "every call was captured into a graph of torch.npu"
        self._sizes: list[Any] | None = None
        self._of_user = [describe_input(node).kind == "user" for node in inputs]

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        sizes = [_size(argument) for argument in arguments]
        if self._sizes is None and not host_device.is_captured():
            self._sizes = sizes
            given = itertools.compress(arguments, self._of_user)
            self.shapes = [_described(argument) for argument in given if isinstance(argument, torch.Tensor)]
            self.alike += 1
            return self._keep(arguments)
        self.alike += sizes == self._sizes
        return self.run(*arguments)

    def _keep(self, arguments: Sequence[Any]) -> Any:
        """Makes the first call, and keeps what is needed to make it again."""
        if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
            self.problem = "other processes may have to call it at the same time"
            return self.run(*arguments)
        try:
            call = Call(_copied(arguments), Settings(_devices(arguments)), [])
        except Exception as error:
            self.problem = f"its arguments cannot be copied: {first_line(error)}"
            return self.run(*arguments)
        self.problem = "its first call raised an error"
        versions = [_version(argument) for argument in arguments]
        results = self.run(*arguments)
        if [_size(argument) for argument in arguments] != self._sizes:
            self.problem = "it changes the sizes of its arguments"
            return results
        before = zip(arguments, versions, call.arguments, strict=True)
        call.written = [i for i, (argument, *old) in enumerate(before) if _is_written(argument, *old)]
        self.call = call

        def note(gradient: torch.Tensor) -> None:
            call.has_gradients = True

        for result in results:
            if isinstance(result, torch.Tensor) and result.requires_grad:
                result.register_hook(note)
        return results


class Functions(list[Function]):
    """The compiled graphs of a script, in order. ``artifacts`` is the list to which each compile adds, and after
    ``most`` calls of all graphs the script ends."""

    def __init__(self, artifacts: list[Artifact], most: int | None) -> None:
        super().__init__()
        self._artifacts = artifacts
        self._left = most

    def compile(self, compile_: Callable[..., CompiledGraph], gm: fx.GraphModule, *arguments: Any) -> CompiledGraph:
        """Compiles a graph and adds it. It is one of ``npugraph.backend.interposers``."""
        eager = fx.GraphModule(gm, copy.deepcopy(gm.graph))  # a compile may change what it gets
        before = len(self._artifacts)
        run = compile_(gm, *arguments).run
        function = Function(_name(self._artifacts[before:]) or name_of(gm), eager, run)
        self.append(function)

        def call(*inputs: Any) -> Any:
            if self._left is not None:
                if not self._left:
                    raise EnoughCalls
                self._left -= 1
            return function(*inputs)

        return CompiledGraph(call)


def first_line(error: BaseException) -> str:
    """An error in one line."""
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def _name(made: Sequence[Artifact]) -> str:
    nested = {id(inner) for artifact in made for inner in artifact.nested}
    names = (artifact.name for artifact in made if id(artifact) not in nested)
    return next(names, "").removesuffix(".forward")


def _is_dynamic(example: Any) -> bool:
    sizes = example.shape if isinstance(example, torch.Tensor) else [example]
    return any(isinstance(size, torch.SymInt) for size in sizes)


def _copied(arguments: Sequence[Any]) -> list[Any]:
    """Copies tensors, which may be written later. Those that shared their memory share it in the copies, too."""
    memo: dict[int, Any] = {}
    return [_copy(argument, memo) for argument in arguments]


def _copy(argument: Any, memo: dict[int, Any]) -> Any:
    if not isinstance(argument, torch.Tensor) or isinstance(argument, torch.nn.Parameter):
        return argument
    return copy.deepcopy(argument.detach(), memo).requires_grad_(argument.requires_grad)


def _devices(arguments: Sequence[Any]) -> set[str]:
    return {"cpu", *(argument.device.type for argument in arguments if isinstance(argument, torch.Tensor))}


def _size(argument: Any) -> torch.Size | None:
    return argument.shape if isinstance(argument, torch.Tensor) else None


def _version(argument: Any) -> int | None:
    return argument._version if isinstance(argument, torch.Tensor) and not argument.is_inference() else None


def _is_written(argument: Any, version: int | None, copied: Any) -> bool:
    if isinstance(argument, torch.Tensor) and version is None:  # tensors of inference mode count no writes
        return not torch.equal(argument, copied)
    return _version(argument) != version


def _described(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
