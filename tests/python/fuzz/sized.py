# SPDX-License-Identifier: Apache-2.0
"""Compiles functions for symbolic sizes without Dynamo, which would take most of the time of a compile."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo.source import LocalSource
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

Function = Callable[..., tuple[torch.Tensor, ...]]
Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]


def trace(function: Function) -> fx.GraphModule:
    """Returns a graph of the calls in a function of tensors. It includes item assignments."""
    tracer = _Tracer()
    graph = tracer.trace(function)
    return fx.GraphModule(tracer.root, graph)


class _Tracer(fx.Tracer):
    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)


# Attributes that are views. torch.fx would make them where they are read, perhaps behind a later ``transpose_``.
_VIEWS = {"H", "T", "imag", "mH", "mT", "real"}


class _Proxy(fx.Proxy):
    def __getattr__(self, name: str) -> Any:
        attribute = super().__getattr__(name)
        return self.tracer.proxy(attribute.node) if name in _VIEWS else attribute

    def __setitem__(self, index: Any, value: Any) -> None:
        self.tracer.create_proxy("call_function", operator.setitem, (self, index, value), {})


class Sized:
    """Calls ``function`` as ``backend`` compiles it for symbolic sizes. As with Dynamo, sizes are arguments of the
    graph, equal sizes share a symbol, sizes 0 and 1 are constants, and the function is compiled again for sizes that
    break the assumptions of earlier compiles. ``varying`` has the argument and the dimension of each symbolic size. If
    it is None, all sizes are symbolic."""

    def __init__(self, function: Function, backend: Backend, varying: set[tuple[int, int]] | None) -> None:
        self._function = function
        self._backend = backend
        self._varying = varying
        self._compiled: list[_Compiled] = []

    def __call__(self, *args: torch.Tensor) -> Any:
        fitting = next((compiled for compiled in self._compiled if compiled.fits(args)), None)
        if fitting is None:
            fitting = _Compiled(self._function, self._backend, args, self._varying)
            self._compiled.append(fitting)
        return fitting(args)


class _Compiled:
    def __init__(
        self,
        function: Function,
        backend: Backend,
        args: Sequence[torch.Tensor],
        varying: set[tuple[int, int]] | None,
    ) -> None:
        self._env = ShapeEnv()
        mode = FakeTensorMode(shape_env=self._env)
        mode.cache_enabled = False  # filling it takes a quarter of the time, and no two programs are alike
        fakes = [_fake(mode, number, t, varying) for number, t in enumerate(args)]
        self._places = _places_of_symbols(fakes)
        graph = trace(function)
        sizes = [_geometry(fakes[number])[index] for number, index in self._places]
        with graph.graph.inserting_before(next(iter(graph.graph.nodes))):
            for size in sizes:
                graph.graph.placeholder(str(size))
        graph.recompile()
        with tracing(TracingContext(mode)):
            self._run = backend(graph, [*sizes, *fakes])
        sources = [LocalSource(f"t{number}") for number in range(len(fakes))]  # as evaluate_guards_expression has them
        self._guards = self._env.produce_guards(fakes, sources, ignore_static=False)

    def fits(self, args: Sequence[torch.Tensor]) -> bool:
        return all(self._env.evaluate_guards_expression(guard, args) for guard in self._guards)

    def __call__(self, args: Sequence[torch.Tensor]) -> Any:
        sizes = (_geometry(args[number])[index] for number, index in self._places)
        return self._run(*sizes, *(t if t.requires_grad else _without_base(t) for t in args))


def _fake(mode: FakeTensorMode, number: int, t: torch.Tensor, varying: set[tuple[int, int]] | None) -> Any:
    dims = [
        DimDynamic.DUCK if varying is None or (number, dim) in varying else DimDynamic.STATIC for dim in range(t.dim())
    ]
    plain = _without_base(t).requires_grad_(t.requires_grad)
    context = StatelessSymbolicContext(dynamic_sizes=dims)
    return mode.from_tensor(plain, symbolic_context=context, source=LocalSource(f"x{number}"))


def _without_base(t: torch.Tensor) -> torch.Tensor:
    """Returns a tensor of the same memory that is not a view. For a view, torch would also make symbols for the base,
    and pass the base to the graph, although it is no argument."""
    return torch.empty(0, dtype=t.dtype).set_(t.untyped_storage(), t.storage_offset(), t.shape, t.stride())


def _geometry(t: torch.Tensor) -> tuple[Any, ...]:
    return (*t.shape, *t.stride(), t.storage_offset())


def _places_of_symbols(fakes: Sequence[torch.Tensor]) -> list[tuple[int, int]]:
    """Returns for each symbol the first tensor whose geometry contains it, and its index in that geometry."""
    places: dict[str, tuple[int, int]] = {}
    for number, fake in enumerate(fakes):
        for index, size in enumerate(_geometry(fake)):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                places.setdefault(str(size), (number, index))
    return list(places.values())
