# SPDX-License-Identifier: Apache-2.0
"""``torchair.dynamo_export``: the graph of a model as files that a process without Python compiles and runs."""

from __future__ import annotations

import inspect
import itertools
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo import convert_frame
from torch._guards import TracingContext, tracing
from torch.fx.experimental import _config as shape_config

from npugraph.backend import checked, compile_dynamo_graph
from npugraph.driver import graph_target
from npugraph.driver.entry import CompiledGraph, OperatorGraph, Target
from npugraph.ge import dumps
from npugraph.ge.config import CompilerConfig, npugraph_options, warn_of_irrelevant
from npugraph.ge.config.row import GE
from npugraph.ge.dumps.files import normalise_and_show
from npugraph.ge.export.files import ExportFiles, files_of, make_constants, weights_of
from npugraph.ge.fx import graph_forms
from npugraph.ge.fx.fold_views import fold_views
from npugraph.ge.fx.graph import SOURCE, Built, build
from npugraph.ge.fx.outputs import Fixed, Result
from npugraph.ge.fx.scopes import read_scopes
from npugraph.ge.normalise import DEVICE, INPUTS_OF_GRAPH
from npugraph.inference.capture import as_torch_compile_traces
from npugraph.log import logger

_ROOT = re.compile(r"L\['(\w+)'\]")  # of a source: a local variable of the traced function


def dynamo_export(
    *args: Any,
    model: Callable[..., Any],
    export_path: str | os.PathLike[str] = "export_file",
    export_name: str = "export",
    dynamic: bool = False,
    config: CompilerConfig | None = None,
    **kwargs: Any,
) -> None:
    """Writes the graph of the call ``model(*args, **kwargs)`` to files, without running it:

    - ``<export_name>.air`` in the directory ``export_path``: a serialised ``ModelDef``, which ``npugraph-run`` runs.
    - ``dynamo.pbtxt`` beside it: the graph as text for viewers.

    Tensors that the call does not pass, such as parameters and buffers, are constants of the model. Inputs of the model
    are tensors that the call passes, numbers that differ from call to call and are no sizes of these tensors, and
    behind them all tensors that the graph writes, named after their sizes, strides and offsets. Its outputs are the
    tensors that the graph computes, and sizes that differ from call to call. If the model is larger than protobuf
    allows, which is 2 GiB, each constant is in a file of its own. In a process group of several ranks, each rank writes
    ``<export_name><rank>.air`` and the directory ``rank_<rank>`` for the other files. With ``dynamic``, sizes of inputs
    are unknown in the model, each by itself: two are the same only if the model needs that.

    Raises ``ValueError`` for options that an export cannot have and for symbolic links among the files, an error of
    Dynamo if the call is not one graph, and ``NotImplementedError`` with all operators that cannot be converted.
    """
    config = CompilerConfig() if config is None else config
    _refuse(config)
    warn_of_irrelevant(config, stacklevel=3)
    files = files_of(export_path, export_name)
    # Equal sizes of the call have names of their own, unless the model needs them to be equal.
    with torch.no_grad(), as_torch_compile_traces(dynamic), shape_config.patch(use_duck_shape=False):
        traced = convert_frame.fullgraph_capture(model, args, kwargs).backend_input
        if traced is None:
            raise ValueError("dynamo_export writes a graph of operators, and the call of the model has none")
        export = _Export(config, files, export_name, _arguments_of(model), _names_of(model), traced.example_inputs)
        context = TracingContext(traced.fake_mode)
        context.tensor_to_context = traced.tensor_to_context
        with tracing(context):
            # Errors of all but the last function would be defects of npugraph.
            target = Target("GE file", (), (), lambda graph: None, export, kept=graph_forms.rules)
            options = checked(npugraph_options(config), backend="torchair")
            compile_dynamo_graph(traced.graph_module, traced.example_inputs, options, target=target)


def _refuse(config: CompilerConfig) -> None:
    if config.mode.value != GE:
        raise ValueError(f"dynamo_export writes graphs of mode {GE!r}, got a config with mode {config.mode.value!r}")
    if config.experimental_config.frozen_parameter.value:
        raise ValueError(
            "dynamo_export takes no config with experimental_config.frozen_parameter: parameters are constants of the "
            "file, which have no addresses"
        )


def _arguments_of(model: Callable[..., Any]) -> frozenset[str]:
    """The variables of the traced function that hold what the call passes."""
    function, owner = convert_frame.get_traced_fn(model)
    names = list(inspect.signature(function, follow_wrapped=False).parameters)
    return frozenset(names[0 if owner is None else 1 :])


def _names_of(model: Callable[..., Any]) -> dict[int, str]:
    """Names of parameters and buffers by their identities."""
    owner = model if isinstance(model, torch.nn.Module) else getattr(model, "__self__", None)
    if not isinstance(owner, torch.nn.Module):
        return {}
    return {id(tensor): name for name, tensor in itertools.chain(owner.named_buffers(), owner.named_parameters())}


class _Export:
    """Converts a graph of operators and writes it, in place of a compiled function. ``arguments`` are names of local
    variables, ``names`` those of tensors by their identities, ``inputs`` the tensors of the traced call."""

    def __init__(
        self,
        config: CompilerConfig,
        files: ExportFiles,
        name: str,
        arguments: frozenset[str],
        names: dict[int, str],
        inputs: Sequence[Any],
    ) -> None:
        self._config = config
        self._files = files
        self._name = name
        self._arguments = arguments
        self._names = names
        self._inputs = inputs

    def __call__(self, graph: OperatorGraph, nothing: None) -> CompiledGraph:
        graph_target.prepare_graph(graph)
        graph_target.correct_fake_values(graph)
        strands = read_scopes(graph.gm)
        if self._config.experimental_config.enable_view_optimize.value:
            fold_views(graph.gm.graph)
        if len(graph.inputs) != len(self._inputs):
            raise ValueError(
                "dynamo_export takes no model whose inputs share memory, or that has effects such as prints: its graph "
                f"has {len(graph.inputs)} inputs, and Dynamo's {len(self._inputs)}"
            )
        logger.info("dynamo_export: converting graph %s", self._name)
        built = build(graph.gm, self._name, graph.inputs, is_file=True, strands=strands)
        self._write(built, graph)
        return CompiledGraph(graph.gm.forward)  # nobody calls it

    def _write(self, built: Built, source: OperatorGraph) -> None:
        graph = built.graph
        graph.model.name = self._name
        if DEVICE in graph.attr:
            del graph.attr[DEVICE]  # a file is for any device
        placeholders = source.gm.graph.find_nodes(op="placeholder")
        tensors = {}
        for index, place in enumerate(built.fed):
            tensor = self._inputs[place]
            if isinstance(tensor, torch.Tensor) and not self._is_passed(source.inputs[place].source):
                tensors[index] = self._names.get(id(tensor), placeholders[place].name), tensor
        weights = weights_of(graph, tensors)
        is_inline = make_constants(graph, weights, self._files)
        normalise_and_show(graph, self._config, source.observer)
        self._files.air.write_bytes(graph.SerializeToString())
        dumps.write(graph, self._files.view, "pbtxt")
        self._tell(built, len(weights), is_inline)

    def _is_passed(self, source: str) -> bool:
        root = _ROOT.match(source)
        return root is not None and root[1] in self._arguments

    def _tell(self, built: Built, weights: int, is_inline: bool) -> None:
        air, ops = self._files.air, built.graph.op
        place = "in the model" if is_inline else f"in files of {self._files.folder}"
        logger.info("dynamo_export: wrote %s: %d operators, %d weights %s", air, len(ops), weights, place)
        inputs = [(op.attr["index"].i, op.attr[SOURCE].s.decode()) for op in ops if op.type in INPUTS_OF_GRAPH]
        for index, source in sorted(inputs):
            logger.info("dynamo_export: input %d of %s is %s", index, air, source)
        if left_out := _left_out(built):
            logger.warning(
                "dynamo_export: %s does not have outputs %s of the graph, which are inputs, constants or outputs again",
                air,
                left_out,
            )


def _left_out(built: Built) -> list[int]:
    """The outputs of the FX graph, by their places, that are not outputs of the graph of GE."""
    seen: set[int] = set()
    left_out = []
    for place, entry in enumerate(built.outputs.entries):
        if isinstance(entry, Result) and entry.index not in seen:
            seen.add(entry.index)
        elif entry != Fixed(None):
            left_out.append(place)
    return left_out
