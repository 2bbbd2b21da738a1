# SPDX-License-Identifier: Apache-2.0
"""A graph of GE as a function. It is compiled at its first call: changes of the graph until then count."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from npugraph.ge.backend.engine import initialize_graph_engine
from npugraph.ge.graph import GeGraph
from npugraph.log import logger

_numbers = itertools.count(1)


def next_name() -> str:
    """The name of the next graph of this process: graph_1, graph_2, ..."""
    return f"graph_{next(_numbers)}"


class GeConcreteGraph:
    """``graph`` with the options of its compile. ``request`` is a ``_C.CompileRequest``. A ``boxed`` function takes a
    list of the inputs, which it empties, any other one takes them one by one."""

    def __init__(
        self,
        graph: GeGraph,
        request: Any,
        local_options: dict[str, str],
        global_options: dict[str, str],
        *,
        boxed: bool = False,
    ) -> None:
        self._graph = graph
        self._request = request
        self._local_options, self._global_options = local_options, global_options
        self._boxed = boxed
        self._lock = threading.Lock()
        self._function: Any = None

    @property
    def graph(self) -> GeGraph:
        return self._graph

    @property
    def is_compiled(self) -> bool:
        return self._function is not None

    def compile(self) -> Any:
        """Compiles the graph, once. Returns the C++ function of its inputs."""
        with self._lock:
            if self._function is None:
                initialize_graph_engine(self._global_options)
                self._graph.load(self._local_options)
                logger.info("start compile graph: %s.", self._graph.name)
                executor = self._graph.executor
                executor.compile(self._request, boxed=self._boxed)
                self._function = executor.function
                logger.info("end compile graph: %s and start run graph.", self._graph.name)
        return self._function

    def __call__(self, *args: Any) -> Any:
        function = self._function or self.compile()
        return function(*args)
