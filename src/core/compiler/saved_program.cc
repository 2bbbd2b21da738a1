// SPDX-License-Identifier: Apache-2.0
#include "compiler/saved_program.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/words.h"
#include "lower/catalog.h"
#include "program/call_symbols.h"

namespace npugraph::compiler {

namespace {

// A host whose operators cannot run, but whose weights are packed as before.
class WithoutOperators final : public lower::OperatorCatalog {
 public:
  explicit WithoutOperators(const lower::OperatorCatalog& host) : host_(host) {}
  std::optional<lower::OutVariant> out_variant(const ir::Op&) const override { return std::nullopt; }
  bool can_run(const ir::Op&) const override { return false; }
  std::optional<loop::Int4Packing> int4_packing() const override { return host_.int4_packing(); }

 private:
  const lower::OperatorCatalog& host_;
};

}  // namespace

program::Program compile_torch_free(ir::Graph imported, CompileRequest request, CompileHost host) {
  const WithoutOperators none(*host.catalog);
  host.catalog = &none;
  request.generate = true;
  request.keep_rest = true;
  program::Program program = compile(std::move(imported), request, host).program;
  require_torch_free(program);
  return program;
}

void require_torch_free(const program::Program& program) {
  std::string rest;
  int64_t count = 0;
  for (const program::Task& task : program.tasks) {
    if (!program::has(task.kind, program::KindTrait::kOfHost)) continue;
    ++count;
    rest += cat("\n  ", program::place_of(task), task.reason.empty() ? "" : ": ", task.reason);
  }
  if (count > 0) throw UserError(cat(program.name, " needs torch for ", counted(count, "operator"), ":", rest));
}

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
