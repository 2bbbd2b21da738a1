// SPDX-License-Identifier: Apache-2.0
#include "program/call_symbols.h"

#include "base/error.h"
#include "tensor/lexer.h"

namespace npugraph::program {

void CallSymbols::set(const Symbol& symbol, const Scalar& value) {
  if (value.kind != ScalarKind::kFloat && (value.i < symbol.min || value.i > symbol.max)) {
    const std::string what = symbol.dim >= 0 ? cat("size ", symbol.dim, " of ") : "";
    throw UserError(cat(what, input_name(program_, symbol.input), " is ", value.i, "; the graph is made for",
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
