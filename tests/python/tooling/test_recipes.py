# SPDX-License-Identifier: Apache-2.0
"""The recipes of CONTRIBUTING.md, applied to a copy of the sources: an operator, a pass and a kernel, each in the
places that its recipe names and no others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

# "Add an operator": one row. The recipe for a kernel makes the row name the kernel.
OPERATOR = """\
{.schema = "recipes::cube(Tensor self) -> Tensor",
 .traits = kElementwise | kForeign, .shape = shapes::unary},
"""
INFERS = """\
// RUN: npugraph-opt %s | FileCheck %s
// CHECK: %y : f32[8, 3]{3, 1} = recipes.cube(%x)
npugraph.graph 1 @infers {
  input %x : f32[8, 3]
  %y = recipes.cube(%x)
  return %y
}
"""

# "Add a pass": a header and a source, a line in the registry, a line in the pipeline, a test.
PASS_HEADER = """\
// SPDX-License-Identifier: Apache-2.0
// Computes cubes as products.
//
//   %y = recipes.cube(%x)  ->  %s = aten.mul.Tensor(%x, %x), %y = aten.mul.Tensor(%s, %x)
#pragma once

#include "passes/pass.h"

namespace npugraph::passes {

int expand_cubes(ir::Graph& graph, PassContext& context);

}  // namespace npugraph::passes
"""
PASS_SOURCE = """\
// SPDX-License-Identifier: Apache-2.0
#include "passes/simplify/expand_cubes.h"

#include "ops/operators.h"
#include "passes/rewrite.h"

namespace npugraph::passes {

int expand_cubes(ir::Graph& graph, PassContext&) {
  Replacements replacements(graph);
  int hits = 0;
  walk(graph, replacements, [&](ir::NodeId id) {
    if (!recipes::cube::is(graph.node(id))) return;
    const TensorRef x{recipes::cube::self(graph.node(id))};
    const TensorRef square{insert_before(graph, id, aten::mul_Tensor::op(), {x, x}, "square")};
    replacements.replace(graph.node(id).results[0],
                         insert_before(graph, id, aten::mul_Tensor::op(), {square, x}, "cube"));
    graph.erase(id);
    ++hits;
  });
  return hits;
}

}  // namespace npugraph::passes
"""
PASS_INCLUDE = '#include "passes/simplify/expand_cubes.h"\n'
REGISTRY_LINE = """      {"expand_cubes", expand_cubes, "computes cubes as products"},\n"""
PIPELINE_LINE = """      // While everything is functional.\n      "expand_cubes",\n"""
EXPANDS = """\
// RUN: npugraph-opt %s --passes=expand_cubes --verify-each | FileCheck %s
// CHECK: %[[S:.*]] : f32[s0]{1} = aten.mul.Tensor(%x, %x)
// CHECK-NEXT: %[[Y:.*]] : f32[s0]{1} = aten.mul.Tensor(%[[S]], %x)
// CHECK-NEXT: %z : f32[s0]{1} = aten.neg(%[[Y]])
npugraph.graph 1 @expands {
  input s0 : int
  input %x : f32[s0]
  %y = recipes.cube(%x)
  %z = aten.neg(%y)
  return %z
}
"""

# "Add a kernel": the operation and its row. The operator's row names the kernel.
KERNEL_OPERATION = """\
struct Cube {
  static float apply(float x) { return x * x * x; }
};
"""
KERNEL_ROW = """    row<unary_f32<Cube>>("kernel.unary_cube", "(x: f32) -> y = x * x * x"),\n"""
LOWERS = """\
// RUN: npugraph-opt %s --to=lower | FileCheck %s
// CHECK: task 0 kernel "kernel.unary_cube"
npugraph.graph 1 @lowers {
  input %x : f32[8]
  %y = recipes.cube(%x)
  return %y
}
"""


class Tree:
    """A copy of the files that git does not ignore. Files that are deleted are still in its index."""

    def __init__(self, root: Path) -> None:
        self.root = root
        command = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
        files = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
        for file in filter(lambda file: (ROOT / file).exists(), files):
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, root / file)
        self.touched: set[str] = set()

    def append(self, path: str, text: str) -> None:
        self.write(path, (self.root / path).read_text() + text)

    def insert(self, path: str, before: str, text: str) -> None:
        """Puts ``text`` before the first line that starts with ``before``."""
        old = (self.root / path).read_text()
        assert f"\n{before}" in old, f"{path} has no line {before!r}"
        self.write(path, old.replace(f"\n{before}", f"\n{text}{before}", 1))

    def write(self, path: str, text: str) -> None:
        (self.root / path).write_text(text)
        self.touched.add(path)

    def run(self, *command: str | Path) -> str:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            command,
            cwd=self.root,
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout


def add_operator(tree: Tree) -> None:
    tree.append("src/core/ops/rows/pointwise_unary.inc", OPERATOR)
    tree.write("tests/ir/ir/cube.ir", INFERS)


def add_pass(tree: Tree) -> None:
    tree.write("src/core/passes/simplify/expand_cubes.h", PASS_HEADER)
    tree.write("src/core/passes/simplify/expand_cubes.cc", PASS_SOURCE)
    tree.insert("src/core/passes/registry.cc", '#include "passes/simplify/fold_constants.h"', PASS_INCLUDE)
    tree.insert("src/core/passes/registry.cc", '      {"fold_constants"', REGISTRY_LINE)
    tree.insert("src/core/compiler/pipeline.cc", '      "straighten",', PIPELINE_LINE)
    tree.write("tests/ir/passes/expand_cubes.ir", EXPANDS)


def add_kernel(tree: Tree) -> None:
    tree.insert("src/core/kernels/pointwise_table.cc", "struct LogicalNot", KERNEL_OPERATION)
    tree.insert("src/core/kernels/pointwise_table.cc", "    row<unary_bool<LogicalNot>>", KERNEL_ROW)
    rows = (tree.root / "src/core/ops/rows/pointwise_unary.inc").read_text()
    named = OPERATOR.replace("unary},", 'unary,\n .kernel = {"kernel.unary_cube", kF32, 1}},')
    tree.write("src/core/ops/rows/pointwise_unary.inc", rows.replace(OPERATOR, named))
    tree.write("tests/ir/lower/cube.ir", LOWERS)


def touched_by(recipe: Callable[[Tree], None], tree: Tree) -> set[str]:
    tree.touched = set()
    recipe(tree)
    return {path for path in tree.touched if not path.startswith("tests/")}


@pytest.mark.long
def test_operators_passes_and_kernels_are_added_by_their_recipes(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "tree")
    assert touched_by(add_operator, tree) == {"src/core/ops/rows/pointwise_unary.inc"}
    assert touched_by(add_pass, tree) == {
        "src/core/passes/simplify/expand_cubes.h",
        "src/core/passes/simplify/expand_cubes.cc",
        "src/core/passes/registry.cc",
        "src/core/compiler/pipeline.cc",
    }
    assert touched_by(add_kernel, tree) == {
        "src/core/kernels/pointwise_table.cc",
        "src/core/ops/rows/pointwise_unary.inc",
    }

    options = ("-DCMAKE_BUILD_TYPE=Debug", "-DNPUGRAPH_TORCH=OFF", "-DNPUGRAPH_UNITY=ON")
    tree.run("cmake", "-S", ".", "-B", "build", "-G", "Ninja", *options)
    targets = ("npugraph-opt", "kernels_test", "ops_test", "passes_test")
    tree.run("ninja", "-C", "build", "-j2", *targets)
    for check in ("check_layers", "check_operators", "check_names", "check_file_size"):
        tree.run(sys.executable, f"scripts/{check}", "--root", ".")
    files = ("tests/ir/ir/cube.ir", "tests/ir/passes/expand_cubes.ir", "tests/ir/lower/cube.ir")
    tree.run(Path(sys.executable).parent / "lit", "-sv", "--param", f"tools={tree.root / 'build/bin'}", *files)
    assert "Kernels" in tree.run("build/bin/kernels_test", "--gtest_filter=Kernels.*")
    tree.run("build/bin/passes_test")
