// SPDX-License-Identifier: Apache-2.0
#include "program/window_fit.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "tensor/sign.h"

namespace npugraph::program {
namespace {

// If `e` is s + c with a symbol s and an integer constant c: s and c.
std::optional<std::pair<Expr, int64_t>> symbol_and_rest(const Expr& e) {
  if (e.is_constant()) return {};
  if (e.op() == ExprOp::kSymbol) return {{e, 0}};
  if (e.op() != ExprOp::kAdd || e.args().size() != 2) return {};
  for (const size_t at : {0, 1}) {
    const Expr &symbol = e.args()[at], &rest = e.args()[1 - at];
    if (!symbol.is_constant() && symbol.op() == ExprOp::kSymbol && rest.as_int()) return {{symbol, *rest.as_int()}};
  }
  return {};
}

}  // namespace

WindowFits::WindowFits(const Program& program) : program_(program) {
  const auto add = [&](const Dim& dim) {
    if (dim.is_constant()) return;
    const Expr& e = program.exprs[dim.expr];
    if (e.op() == ExprOp::kSymbol) counts_.insert(e.symbol_name());
  };
  for (const Input& input : program.inputs) {
    std::ranges::for_each(input.sizes, add);
    std::ranges::for_each(input.strides, add);
    if (input.storage_offset) add(*input.storage_offset);
  }
  for (const Symbol& symbol : program.symbols) {
    if (symbol.dim != kNone) counts_.insert(symbol.name);
  }
  const auto count = static_cast<int32_t>(program.symbols.size());
  for (const Task& task : program.tasks) {
    for (const Defined& defined : task.defines) {
      const bool exists = defined.symbol >= 0 && defined.symbol < count;
      if (exists && defined.dim != kNone) counts_.insert(program.symbols[defined.symbol].name);
    }
  }
}

Fit WindowFits::of(const Operand& operand) {
  Numbers key;
  const auto add = [&](const Dim& dim) { key.emplace_back(dim.constant, dim.expr); };
  add(program_.buffers[operand.buffer].bytes);
  add(operand.byte_offset);
  add({.constant = size_of(operand.dtype)});
  std::ranges::for_each(operand.sizes, add);
  std::ranges::for_each(operand.strides, add);
  const auto [at, is_new] = known_.try_emplace(std::move(key), Fit::kUnknown);
  if (is_new) at->second = prove(operand);
  return at->second;
}

Fit WindowFits::prove(const Operand& operand) const {
  try {
    Expr last = 0;  // offset of the last element, in elements
    bool may_have_elements = true;
    std::unordered_map<std::string, int64_t> least;
    for (size_t d = 0; d < operand.sizes.size(); ++d) {
      const Expr size = program_.expr(operand.sizes[d]);
      if (size.is_int(0)) return Fit::kAlways;
      last = last + (size - 1) * program_.expr(operand.strides[d]);
      const auto parts = symbol_and_rest(size);
      may_have_elements = may_have_elements && (parts || size.is_constant());
      if (!parts) continue;
      int64_t& bound = least.try_emplace(parts->first.symbol_name(), 1 - parts->second).first->second;
      bound = std::max(bound, 1 - parts->second);
    }
    // Replaces each symbol by its lower bound plus a symbol that is at least 0, which is what is_nonnegative() assumes.
    const auto is_proven = [&](const Expr& e) {
      bool known = true;
      const Expr counted = substitute(e, [&](const Expr& symbol) {
        const auto bound = least.find(symbol.symbol_name());
        const bool counts = counts_.contains(symbol.symbol_name());
        known = known && (counts || bound != least.end());
        if (bound == least.end()) return symbol;
        return symbol + (counts ? std::max<int64_t>(bound->second, 0) : bound->second);
      });
      return known && is_nonnegative(counted);
    };
    const Expr offset = program_.expr(operand.byte_offset);
    const Expr room =
        program_.expr(program_.buffers[operand.buffer].bytes) - offset - (last + 1) * Expr(size_of(operand.dtype));
    if (is_proven(room) && is_proven(offset)) return Fit::kAlways;
    return may_have_elements && is_proven(-1 - room) ? Fit::kNever : Fit::kUnknown;
  } catch (const UserError&) {
    return Fit::kUnknown;  // a coefficient overflows
  }
}

}  // namespace npugraph::program
