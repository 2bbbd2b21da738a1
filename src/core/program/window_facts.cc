// SPDX-License-Identifier: Apache-2.0
#include "program/window_facts.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tensor/expr.h"

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

namespace {

// Strides in bytes, the largest first, each once; the last one is a single byte.
using Strides = std::vector<int64_t>;

// Adds those of the dimensions of more than one element. Returns false if one is not known or not positive.
bool add_strides(const Operand& window, Strides& strides) {
  for (size_t d = 0; d < window.sizes.size(); ++d) {
    if (window.sizes[d] == Dim{1}) continue;
    if (!window.strides[d].is_constant() || window.strides[d].constant <= 0) return false;
    strides.push_back(window.strides[d].constant * size_of(window.dtype));
  }
  return true;
}

// The places of a window along one stride: [first, first + count), without an end if the count is not known.
struct Range {
  int64_t first = 0;
  std::optional<int64_t> count = 1;

  bool is_before(const Range& other) const { return count && first + *count <= other.first; }
};

// The window as a box in an array with these strides, each of which is at least as long as what lies inside of it.
// nullopt if it is no such box.
std::optional<std::vector<Range>> box_of(const Operand& window, const Strides& strides) {
  if (!window.byte_offset.is_constant() || window.byte_offset.constant < 0) return {};
  std::vector<Range> box(strides.size());
  int64_t offset = window.byte_offset.constant;
  for (size_t i = 0; i < strides.size(); ++i) {
    box[i].first = offset / strides[i];
    offset %= strides[i];
  }
  box.back().count = size_of(window.dtype);
  for (size_t d = 0; d < window.sizes.size(); ++d) {
    if (window.sizes[d] == Dim{1}) continue;
    const auto at = std::ranges::find(strides, window.strides[d].constant * size_of(window.dtype));
    Range& range = box[at - strides.begin()];
    if (range.count != 1) return {};  // two dimensions of one stride
    range.count = window.sizes[d].is_constant() ? std::optional(window.sizes[d].constant) : std::nullopt;
  }
  for (size_t i = 1; i < box.size(); ++i) {
    if (!box[i].count || (box[i].first + *box[i].count) * strides[i] > strides[i - 1]) return {};
  }
  return box;
}

// The first byte of the window and the one behind its last byte; nullopt if they are not known.
std::optional<std::pair<int64_t, int64_t>> span_of(const Operand& window) {
  if (!window.byte_offset.is_constant()) return {};
  const int64_t first = window.byte_offset.constant;
  int64_t last = first;
  for (size_t d = 0; d < window.sizes.size(); ++d) {
    if (window.sizes[d] == Dim{1}) continue;
    if (!window.sizes[d].is_constant() || !window.strides[d].is_constant()) return {};
    last += (window.sizes[d].constant - 1) * window.strides[d].constant * size_of(window.dtype);
  }
  return {{first, last + size_of(window.dtype)}};
}

}  // namespace

bool are_disjoint(const Operand& a, const Operand& b) {
  if (a.buffer != b.buffer) return true;
  const auto span_a = span_of(a), span_b = span_of(b);
  if (span_a && span_b && (span_a->second <= span_b->first || span_b->second <= span_a->first)) return true;
  Strides strides = {1};
  if (!add_strides(a, strides) || !add_strides(b, strides)) return false;
  std::ranges::sort(strides, std::greater());
  strides.erase(std::unique(strides.begin(), strides.end()), strides.end());
  const auto first = box_of(a, strides), second = box_of(b, strides);
  if (!first || !second) return false;
  for (size_t i = 0; i < strides.size(); ++i) {
    if ((*first)[i].is_before((*second)[i]) || (*second)[i].is_before((*first)[i])) return true;
  }
  return false;
}

}  // namespace npugraph::program
