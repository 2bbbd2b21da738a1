// SPDX-License-Identifier: Apache-2.0
// Programs for files and for processes without torch or the front end.
#pragma once

#include <span>

#include "compiler/pipeline.h"
#include "ir/graph.h"
#include "program/program.h"
#include "tensor/expr.h"

namespace npugraph::compiler {

// Whatever can be generated is, also where an operator of the host is faster.
// The Program of `imported` with generated code and precompiled kernels alone. UserError that names each operator that
// has neither, with its line and the reason.
program::Program compile_torch_free(ir::Graph imported, CompileRequest request, CompileHost host);
// UserError as above if a task of `program` runs on the host's objects.
void require_torch_free(const program::Program& program);

// What the front end tests before each call of a compiled graph, as conditions that a Program in a file tests itself.

// A copy of `program`, which was compiled from `imported`, with conditions: `guards`, expressions of the symbols of
// `imported`, and for each number that the front end gave a value, or an expression of other inputs, that it has it.
// Conditions on what the Program is not given are left out.
program::Program guarded(const program::Program& program, const ir::Graph& imported, std::span<const Expr> guards);

}  // namespace npugraph::compiler
