# SPDX-License-Identifier: Apache-2.0
"""The recipes of CONTRIBUTING.md, applied to a copy of the sources, each in the places that its recipe names and no
others."""

from __future__ import annotations

import os
import platform
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

# "Add a kind of task": an enumerator, a row, a maker.
TASK_KIND = "  kRecipe,  // runs the kernel of its name\n"
TASK_KIND_ROW = """    {"recipe"},\n"""
TASK_MAKER = """\
ng_task make_recipe(const program::Program&, const program::Task& task) {
  return program::make_task(kernels::find(task.name)->make, task);
}

"""
TASK_MAKER_LINE = "    all.add(TaskKind::kRecipe, make_recipe);\n"
TASK_KIND_TEST = """\
TEST(Recipes, AKindHasANameAndAMaker) {
  const program::Program program = program::parse(R"(npugraph.program 4 @recipe {
    buffer b0 input(0) bytes(32) live(0, 0)
    buffer b1 output bytes(32) live(0, 0)
    input 0 "x" b0 : f32[8]{1}
    task 0 recipe "kernel.unary_cube" {
      read b0+0 : f32[8]{1}
      write b1+0 : f32[8]{1}
      args(%0)
    }
    segment 1
    output tensor b1+0 : f32[8]{1}
  })", "recipe");
  EXPECT_EQ(program.tasks[0].kind, program::TaskKind::kRecipe);
  ng_task task = make_task(program, program.tasks[0]);
  EXPECT_NE(task.run, nullptr);
  if (task.destroy != nullptr) task.destroy(task.context);
}

"""

# "Add a rule of Ascend IR": a row and its function, and here an operator that Ascend does not document.
IR_OPERATOR = "RecipeCube(x:{float}) -> (y:{float})\n"
IR_RULE = """\
std::vector<Operand> cube(const Call& call) {
  const TensorRef x{call.value("x")};
  const TensorRef square{call.context().add(aten::mul_Tensor::op(), {x, x})};
  return one(call.context().add(aten::mul_Tensor::op(), {square, x}));
}

"""
IR_RULE_ROW = """    {"RecipeCube", cube},\n"""
IR_RULE_TEST = """\
TEST(Recipes, ARuleMakesNodes) {
  const std::string text = graph_or_refusal({data("x", 0, {2}), Op("RecipeCube", "y", {"x:0"})});
  EXPECT_TRUE(contains(text, "aten.mul.Tensor(%x, %x)")) << text;
}

"""

# "Add a processor target": a row, for x86-64.
TARGET_ROW = """    Level{"recipe", "x86-64-v2", [] { return true; }, describe_v2},\n"""


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

    def run(self, *command: str | Path, **environment: str) -> str:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            command,
            cwd=self.root,
            env={**os.environ, "PATH": path, **environment},
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


def add_task_kind(tree: Tree) -> None:
    kinds = "src/core/program/program.h"
    tree.insert(kinds, "  kGroup,", TASK_KIND)
    tree.insert(kinds, '    {"group"', TASK_KIND_ROW)
    makers = "src/core/compiler/task_makers.cc"
    tree.insert(makers, "ng_task make_group(", TASK_MAKER)
    tree.insert(makers, "    return all;", TASK_MAKER_LINE)
    tree.insert("tests/unit/core/compiler/artifact_test.cc", "}  // namespace\n", TASK_KIND_TEST)


def add_rule(tree: Tree) -> None:
    rules = "src/core/ge/import/rules_pointwise.cc"
    tree.insert("src/core/ge/ir/operators.txt", "Reciprocal(", IR_OPERATOR)
    tree.insert(rules, "constexpr auto kPointwiseRules", IR_RULE)
    tree.insert(rules, '    {"Reciprocal"', IR_RULE_ROW)
    tree.insert("tests/unit/core/ge/rules_test.cc", "}  // namespace\n", IR_RULE_TEST)


def add_target(tree: Tree) -> None:
    tree.insert("src/core/target/host.cc", '    Level{"x86-64-v3"', TARGET_ROW)


def touched_by(recipe: Callable[[Tree], None], tree: Tree) -> set[str]:
    tree.touched = set()
    recipe(tree)
    return {path for path in tree.touched if not path.startswith("tests/")}


@pytest.mark.long
def test_the_core_grows_by_its_recipes(tmp_path: Path) -> None:
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
    assert touched_by(add_task_kind, tree) == {
        "src/core/program/program.h",
        "src/core/compiler/task_makers.cc",
    }
    assert touched_by(add_rule, tree) == {"src/core/ge/ir/operators.txt", "src/core/ge/import/rules_pointwise.cc"}
    assert touched_by(add_target, tree) == {"src/core/target/host.cc"}

    options = ("-DCMAKE_BUILD_TYPE=Debug", "-DNPUGRAPH_TORCH=OFF", "-DNPUGRAPH_UNITY=ON")
    tree.run("cmake", "-S", ".", "-B", "build", "-G", "Ninja", *options)
    targets = ("npugraph-opt", "kernels_test", "ops_test", "passes_test", "compiler_test", "ge_test")
    tree.run("ninja", "-C", "build", "-j2", *targets)
    for check in ("check_layers", "check_operators", "check_names", "check_file_size"):
        tree.run(sys.executable, f"scripts/{check}", "--root", ".")
    files = ("tests/ir/ir/cube.ir", "tests/ir/passes/expand_cubes.ir", "tests/ir/lower/cube.ir")
    tree.run(Path(sys.executable).parent / "lit", "-sv", "--param", f"tools={tree.root / 'build/bin'}", *files)
    assert "Kernels" in tree.run("build/bin/kernels_test", "--gtest_filter=Kernels.*")
    tree.run("build/bin/passes_test")
    for program in ("compiler_test", "ge_test"):
        assert "1 test from Recipes" in tree.run(f"build/bin/{program}", "--gtest_filter=Recipes.*")
    if platform.machine() == "x86_64":
        said = tree.run("build/bin/npugraph-opt", files[2], "--to=lower", NPUGRAPH_TARGET="recipe")
        assert "is ignored" not in said


# "Add an option" of Python, and "Add a converter to Ascend IR": a row and a function.
OPTION_ROW = """\
    Option("recipe", 3, IntRange(1, 8), "How many times the soup is stirred."),
"""
CONVERTER_ROW = "aten.special_i0e.default: Square x=self\n"
CONVERTER = """

@register_fx_node_ge_converter(torch.ops.aten.special_i1e.default)
def _recipe(self: Tensor, *, meta_outputs: Any) -> Tensor:
    return ge.Neg(self)
"""
# Without the finder of an editable installation, which would find npugraph of another tree.
NO_FINDER = """\
import sys

sys.meta_path = [finder for finder in sys.meta_path if not type(finder).__name__.startswith("ScikitBuild")]
"""
PRELUDE = f"""\
{NO_FINDER}
sys.path.insert(0, "python")
import torch
"""
USE_OPTION = """
import npugraph_ex

compiled = torch.compile(torch.exp, backend="npugraph_ex", options={"recipe": 5})
assert torch.equal(compiled(torch.zeros(2)), torch.ones(2))
assert npugraph_ex.CompilerConfig().recipe.value == 3
try:
    torch.compile(torch.exp, backend="npugraph_ex", options={"recipe": 9})(torch.zeros(2))
except Exception as error:
    assert "option 'recipe' of backend 'npugraph_ex' takes" in str(error), error
else:
    raise AssertionError("no error")
"""
USE_CONVERTERS = """
import torchair

def function(x):
    return torch.special.i0e(x) + torch.special.i1e(x)

x = torch.rand(5)
with torch.no_grad():
    assert torch.equal(torch.compile(function, backend=torchair.get_npu_backend())(x), x * x + -x)
"""


def add_option(tree: Tree) -> None:
    tree.insert("python/npugraph/options.py", '    Option("name"', OPTION_ROW)


def add_converters(tree: Tree) -> None:
    tree.insert("python/npugraph/ge/converters/rows.py", "aten.square.default:", CONVERTER_ROW)
    tree.append("python/npugraph/ge/converters/reductions.py", CONVERTER)


@pytest.mark.long
def test_options_and_converters_are_added_by_their_recipes(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "tree")
    for built in (ROOT / "python/npugraph").rglob("*.so"):
        copy = tree.root / built.relative_to(ROOT)
        copy.parent.mkdir(exist_ok=True)
        copy.symlink_to(built)
    assert touched_by(add_option, tree) == {"python/npugraph/options.py"}
    assert touched_by(add_converters, tree) == {
        "python/npugraph/ge/converters/rows.py",
        "python/npugraph/ge/converters/reductions.py",
    }
    for use in (USE_OPTION, USE_CONVERTERS):
        tree.run(sys.executable, "-c", PRELUDE + use)
    write_page = f"import runpy\n{PRELUDE}\nrunpy.run_path('scripts/options_page', run_name='__main__')"
    tree.run(sys.executable, "-c", write_page)
    assert "| `recipe` | an int from 1 to 8 | `3` | How many times" in (tree.root / "docs/options.md").read_text()


# "Add an operator of Ascend": a function and its row. A call and a formula for the tests.
ASCEND_KERNEL = """\
Tensor recipe_cube(const Tensor& input) {
  check_floating("npu_recipe_cube", "input", input);
  const Tensor x = wide(input);
  return (x * x * x).to(input.scalar_type());
}

"""
ASCEND_ROW = """\
  library.add({
      .schema = "npu::npu_recipe_cube(Tensor input) -> Tensor",
      .kernel = parts(&recipe_cube),
      .definition = "The third power of input, in its shape and floating type.",
  });
"""
ASCEND_CALL = """

@call("npu_recipe_cube")
def recipe_cube(d: Draw) -> Call:
    return (d.normal(*d.sizes(), dtype=d.dtype()),), {}
"""
ASCEND_TEST = """

def test_recipe_cube_is_the_third_power() -> None:
    check(torch_npu.npu_recipe_cube, (normal(3, 5),), lambda x: x**3)
    x = normal(4).npu()
    compiled = torch.compile(lambda x: torch_npu.npu_recipe_cube(x) + 1, backend="npugraph_ex", fullgraph=True)
    torch.testing.assert_close(compiled(x).cpu(), x.cpu() ** 3 + 1)
"""


def add_ascend_operator(tree: Tree) -> None:
    family = "src/device/npu_ops/layers/activations.cc"
    tree.insert(family, "}  // namespace\n", ASCEND_KERNEL)
    tree.insert(family, "  library.add({", ASCEND_ROW)
    tree.append("tests/python/device/calls_of_rows.py", ASCEND_CALL)
    tree.append("tests/python/device/operators/test_npu_activations.py", ASCEND_TEST)


@pytest.mark.long
def test_an_operator_of_ascend_is_added_by_its_recipe(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "tree")
    assert touched_by(add_ascend_operator, tree) == {"src/device/npu_ops/layers/activations.cc"}
    tree.run(sys.executable, "scripts/check_operators", "--root", ".")
    (tree.root / ".venv").symlink_to(sys.prefix)
    tree.run("scripts/build", "release", "npugraph_ascend")
    (tree.root / "python/sitecustomize.py").write_text(NO_FINDER)

    def run(*arguments: str) -> str:
        return tree.run("scripts/npu_python", *arguments, PYTHONPATH=str(tree.root / "python"))

    run("scripts/npu_operators")
    assert "npu_recipe_cube(Tensor input) -> Tensor" in (tree.root / "docs/npu_operators.md").read_text()
    tests = ("test_npu_activations.py", "test_npu_drawn_calls.py", "test_npu_operators_page.py")
    files = [f"tests/python/device/operators/{file}" for file in tests]
    said = run("-m", "pytest", "-v", "-k", "recipe_cube or test_npu_operators_page", *files)
    assert "test_recipe_cube_is_the_third_power PASSED" in said
    assert "npu_recipe_cube-with_numbers] PASSED" in said
