// SPDX-License-Identifier: Apache-2.0
// What the front end tests before each call of a compiled graph, as conditions that a Program in a file tests itself.
#pragma once

#include <span>

#include "ir/graph.h"
#include "program/program.h"
#include "tensor/expr.h"

namespace npugraph::compiler {

// A copy of `program`, which was compiled from `imported`, with conditions: `guards`, expressions of the symbols of
// `imported`, and for each number that the front end gave a value, or an expression of other inputs, that it has it.
// Conditions on what the Program is not given are left out.
program::Program guarded(const program::Program& program, const ir::Graph& imported, std::span<const Expr> guards);

}  // namespace npugraph::compiler
