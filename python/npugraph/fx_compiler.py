# SPDX-License-Identifier: Apache-2.0
"""The compiler of one graph of Dynamo, under the names that Ascend gives it.

vLLM for Ascend puts a function of its own in the place of ``_NpuFxCompiler._get_compiled_gm``, keeps the text of what
it returns, and makes functions of such texts with ``_CompiledFxGraph.load_artifacts`` in later processes. So once this
module is imported, the graphs of all backends go through that method.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from npugraph import backend
from npugraph.driver.routes import Decompositions
from npugraph.log import logger
from npugraph.options import CompilerConfig
from npugraph.stored import graphs


class _CompiledFxArtifacts:
    """What is kept of a compiled graph: ``py_code``, the text that ``get_code`` returned."""

    py_code = ""


class _CompiledFxGraph:
    """A compiled graph: ``run`` is a function of its inputs. ``parts`` is what it consists of, if that is known."""

    def __init__(self, run: Callable[..., Any], parts: graphs.Parts | None) -> None:
        self.run = run
        self._parts = parts

    def __call__(self, *inputs: Any) -> Any:
        return self.run(*inputs)

    def get_code(self) -> str:
        """Returns a text from which ``load_artifacts`` makes the function without compiling, or an empty text if there
        is none. ``npugraph.logger`` says why at level debug."""
        try:
            if self._parts is None:
                raise graphs.NotStorable("AOTAutograd or the graph as it was written takes part in its calls")
            return base64.b64encode(graphs.pack(self._parts)).decode("ascii")
        except graphs.NotStorable as reason:
            logger.debug("a compiled graph has no text: %s", reason)
            return ""

    @staticmethod
    def load_artifacts(artifacts: _CompiledFxArtifacts) -> Callable[..., Any]:
        """Returns the function of the inputs of a graph whose text is in ``artifacts``. Raises ``ValueError`` if the
        graph has to be compiled again, because another build of npugraph or torch compiled it, or because this process
        lacks one of its operators."""
        try:
            data = base64.b64decode(artifacts.py_code, validate=True)
            return graphs.cached_function_of(data, positional=True)
        except (binascii.Error, graphs.Unusable) as reason:
            raise ValueError(
                f"a stored graph cannot be used: {reason}; delete the cache that holds it, so that it is compiled again"
            ) from None


class _NpuFxCompiler:
    """Compiles graphs of Dynamo with these options. ``compile_`` is what compiles them."""

    def __init__(
        self,
        config: CompilerConfig,
        decompositions: Decompositions,
        compile_: Callable[..., backend.CompiledGraph] = backend.compile_directly,
    ) -> None:
        self.config = config
        self._decompositions = decompositions
        self._compile = compile_

    def _get_compiled_gm(self, graph: fx.GraphModule, example_inputs: Sequence[Any]) -> _CompiledFxGraph:
        return _CompiledFxGraph(*self._compile(graph, example_inputs, self.config, self._decompositions))


def _through_the_class(
    compile_: Callable[..., backend.CompiledGraph],
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    config: CompilerConfig,
    decompositions: Decompositions,
) -> backend.CompiledGraph:
    compiled = _NpuFxCompiler(config, decompositions, compile_)._get_compiled_gm(gm, example_inputs)
    return backend.CompiledGraph(compiled.run)


backend.interposers.append(_through_the_class)
