# SPDX-License-Identifier: Apache-2.0
"""``python -m npugraph parts`` adds the parts of Ascend's operators to a model, so that ``npugraph-run`` runs it."""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from npugraph.ge.graph import GeGraph


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path, help="a model of Ascend IR, FILE.air")
    parser.add_argument("out", type=Path, help="where to write the model with the parts")


def run(arguments: argparse.Namespace) -> int:
    try:
        importlib.import_module("torch_npu")  # it defines the operators
    except ImportError as error:
        print(f"the parts are those that operators of torch_npu have: {error}", file=sys.stderr)
        return 2
    from npugraph.ge.fx.model_parts import add_parts

    try:
        graph = GeGraph(serialized_model_def=arguments.model.read_bytes())
    except (OSError, RuntimeError) as error:
        print(f"{arguments.model}: {error}", file=sys.stderr)
        return 2
    added, refused = add_parts(graph)
    arguments.out.write_bytes(graph.SerializeToString())
    print(f"{arguments.out}: {added} operators have got their parts")
    for line in refused:
        print(line, file=sys.stderr)
    return 1 if refused else 0
