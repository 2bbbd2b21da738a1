# SPDX-License-Identifier: Apache-2.0
"""What loads, compiles and runs a graph of GE: the engine in C++, under the names that torchair gives it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from npugraph import _C

_LIFE = ("created", "loaded", "compiled")


class TorchNpuGraphBase:
    """A graph in the engine. Its life is ``load``, ``set_hint_shape`` (may be left out), ``compile``, ``run``. Raises
    ``RuntimeError`` for a call that is too early or comes twice. Not for several threads at once before it is compiled;
    ``run`` is thread-safe."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._state = "created"
        self._model: bytes = b""
        self._options: dict[str, str] = {}
        self._device = torch.device("cpu")
        self._core: Any = None
        self._run: Any = None

    @property
    def name(self) -> str:
        return self._name

    def load(
        self,
        model_def: bytes,
        options: Mapping[str, str],
        input_placements: Sequence[int],
        output_dtypes: Sequence[int],
        executor_type: int,
    ) -> None:
        """Takes the bytes of a ``ModelDef`` and the options of this graph. ``input_placements`` are 0 for inputs of the
        host and 1 for those of the device. ``executor_type`` is 0 for tensors of the host and 1 for those of npu."""
        self._expect("created", "load")
        self._model, self._options = bytes(model_def), dict(options)
        self._device = torch.device("npu" if executor_type else "cpu")
        self._state = "loaded"

    def set_hint_shape(self, inputs: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]) -> None:
        """Sizes that calls are expected to have. The engine compiles for all sizes, so they change nothing."""

    def compile(self, request: Any = None, *, boxed: bool = False) -> None:
        """Compiles the graph. ``request`` is a ``_C.CompileRequest``. Raises an error that names the operator and the
        line of the user's program if the graph is not well formed or has an operator that the engine lacks."""
        self._expect("loaded", "compile")
        if request is None:
            request = _C.CompileRequest()
            request.name = self._name
        self._core = _C.ge.compile(self._model, request, self._device)
        self._run = self._core.callable(boxed=boxed)
        self._model = b""  # the Program has its own constants
        self._state = "compiled"

    def auto_tune(self, arguments: tuple[Any, ...]) -> None:
        """Tuning has nothing to do here: the engine chooses code by its cost model."""

    def summary(self) -> dict[str, int]:
        """Bytes that the compiled graph needs."""
        self._expect("compiled", "summary")
        return dict(self._core.memory())

    def run(self, arguments: tuple[Any, ...]) -> Any:
        """``arguments`` are inputs, assigned outputs and a stream. Returns the results."""
        self._expect("compiled", "run")
        inputs, _, _ = arguments
        return self._run(*inputs)

    @property
    def core(self) -> Any:
        """The artifact of C++; None before ``compile``."""
        return self._core

    @property
    def function(self) -> Any:
        """The C++ function of the inputs; None before ``compile``."""
        return self._run

    def _expect(self, state: str, call: str) -> None:
        if self._state != state:
            raise RuntimeError(
                f"graph {self._name!r} is {self._state}, and {call} takes a graph that is {state}; the order is "
                f"{', '.join(_LIFE)}"
            )


class TorchNpuGraph(TorchNpuGraphBase):
    """The same with a ``GeGraph`` in place of its bytes."""

    def __init__(self, name: str = "") -> None:
        super().__init__(str(name))

    def load(self, ge_graph: Any, options: Mapping[str, str] | None = None) -> None:  # type: ignore[override]
        super().load(
            ge_graph.SerializeToString(),
            options or {},
            list(ge_graph.attr["_input_placements"].list.i),
            list(ge_graph.attr["_output_dtypes"].list.i),
            ge_graph.attr["_executor_type"].i,
        )

    def auto_tune(self, example_inputs: Sequence[Any] = (), stream: Any = None) -> None:  # type: ignore[override]
        super().auto_tune((example_inputs, stream))

    def run(self, inputs: Sequence[Any], assigned_outputs: Sequence[Any] = (), stream: Any = None) -> Any:  # type: ignore[override]
        return super().run((inputs, assigned_outputs, stream))
