// SPDX-License-Identifier: Apache-2.0
#include "program/call_symbols.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/lexer.h"

namespace npugraph::program {

void CallSymbols::set(const Symbol& symbol, const Scalar& value) {
  if (value.kind != ScalarKind::kFloat && (value.i < symbol.min || value.i > symbol.max)) {
    throw UserError(cat(symbol_source(program_, symbol), " is ", value.i, "; the graph is made for",
                        bounds_text(symbol.min, symbol.max)));
  }
  values_.emplace(symbol.name, value);
}

int64_t CallSymbols::value(const Dim& dim) const {
  if (dim.is_constant()) return dim.constant;
  return evaluate(program_.exprs[dim.expr], [&](const std::string& symbol) { return values_.at(symbol); }).as_int();
}

std::vector<int64_t> CallSymbols::values(std::span<const Dim> dims) const {
  std::vector<int64_t> result;
  for (const Dim& dim : dims) result.push_back(value(dim));
  return result;
}

std::string CallSymbols::text() const {
  std::string text;
  for (const auto& [symbol, value] : values_)
    text += cat(text.empty() ? " with " : ", ", symbol, "=", Expr::constant(value).str());
  return text;
}

std::string input_name(const Program& program, size_t input) {
  return cat("input ", input, " (", program.inputs[input].source, ")");
}

std::string symbol_source(const Program& program, const Symbol& symbol) {
  const std::string what = symbol.dim == kStorageOffset ? "the storage offset of "
                           : symbol.dim != kNone        ? cat("size ", symbol.dim, " of ")
                                                        : "";
  return cat(what, input_name(program, symbol.input));
}

std::string symbols_text(const Program& program, const Expr& e, std::span<const Scalar> values) {
  std::vector<std::string> names;
  collect_symbols(e, names);
  std::string text;
  for (size_t s = 0; s < program.symbols.size(); ++s) {
    const Symbol& symbol = program.symbols[s];
    if (std::ranges::find(names, symbol.name) == names.end()) continue;
    text += cat(text.empty() ? "" : " and ", symbol.name, " (", symbol_source(program, symbol), ") is ",
                Expr::constant(values[s]).str());
  }
  return text;
}

std::string shape_text(std::string_view type, std::span<const int64_t> sizes) {
  std::string text = cat(type, "[");
  for (size_t d = 0; d < sizes.size(); ++d) text += cat(d == 0 ? "" : ", ", sizes[d]);
  return text + "]";
}

std::string shape_text(const Program& program, std::string_view type, std::span<const Dim> sizes) {
  std::string text = cat(type, "[");
  for (size_t d = 0; d < sizes.size(); ++d) text += cat(d == 0 ? "" : ", ", program.expr(sizes[d]).str());
  return text + "]";
}

std::string place_of(const Task& task) {
  return cat(task.name, " (", task.source.empty() ? task.origin : task.source, ")");
}

}  // namespace npugraph::program
