// SPDX-License-Identifier: Apache-2.0
#include "compiler/guarded.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace npugraph::compiler {
namespace {

using program::kNone;

bool is_given(const program::Program& program, const Expr& e) {
  std::vector<std::string> names;
  collect_symbols(e, names);
  return std::ranges::all_of(names, [&](const std::string& name) {
    return std::ranges::any_of(
        program.symbols, [&](const program::Symbol& symbol) { return symbol.name == name && symbol.input != kNone; });
  });
}

bool has_symbol(const program::Program& program, int32_t input) {
  return std::ranges::any_of(
      program.symbols, [&](const program::Symbol& symbol) { return symbol.input == input && symbol.dim == kNone; });
}

void require(program::Program& program, const Expr& condition) {
  if (condition.is_constant() || !is_given(program, condition)) return;
  const int32_t expr = program.dim(condition).expr;
  if (std::ranges::find(program.conditions, expr) == program.conditions.end()) program.conditions.push_back(expr);
}

std::string unused_name(const program::Program& program, int32_t input) {
  std::string name = cat("number", input);
  while (std::ranges::find(program.symbols, name, &program::Symbol::name) != program.symbols.end()) name += "_";
  return name;
}

}  // namespace

program::Program guarded(const program::Program& program, const ir::Graph& imported, std::span<const Expr> guards) {
  NG_CHECK(program.inputs.size() == imported.inputs.size(), program.name, " has other inputs than its graph");
  program::Program made = program;
  for (const Expr& guard : guards) require(made, guard);
  for (int32_t i = 0; i < static_cast<int32_t>(imported.inputs.size()); ++i) {
    const ir::Input& input = imported.inputs[i];
    if (input.value != ir::kNone || has_symbol(made, i) || !is_given(made, input.scalar)) continue;
    const ScalarKind kind = input.scalar.kind();
    const std::string name = unused_name(made, i);
    made.symbols.push_back({.name = name, .kind = kind, .input = i});
    require(made, Expr::make(ExprOp::kEq, {Expr::symbol(name, kind), input.scalar}));
  }
  return made;
}

}  // namespace npugraph::compiler
