// SPDX-License-Identifier: Apache-2.0
#include "runtime/instance/sizes.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "program/call_symbols.h"
#include "runtime/task_error.h"
#include "tensor/lexer.h"
#include "tensor/shape.h"

namespace npugraph::runtime {

using program::BufferClass;

Sizes::Sizes(const Blueprint& blueprint, std::vector<Scalar> symbols)
    : blueprint_(blueprint),
      symbols_(std::move(symbols)),
      values_(blueprint.program->exprs.size()),
      integers_(blueprint.integers),
      changed_at_(blueprint.program->exprs.size(), 0) {
  for (const int32_t s : blueprint.input_symbols) check_bounds(s, symbols_[s].i);
}

// The Program may have been simplified with the bounds, so it is wrong beyond them. Only integers have bounds; the bits
// of other numbers are between the open ends.
void Sizes::check_bounds(int32_t s, int64_t value) const {
  const program::Symbol& symbol = blueprint_.program->symbols[s];
  if (value >= symbol.min && value <= symbol.max) [[likely]]
    return;
  throw InputError(cat(program::symbol_source(*blueprint_.program, symbol), " is ", value,
                       "; the graph was compiled for", bounds_text(symbol.min, symbol.max)));
}

void Sizes::check_conditions() const {
  for (const int32_t condition : blueprint_.program->conditions) {
    if (values_[condition].as_bool()) [[likely]]
      continue;
    const Expr& e = blueprint_.program->exprs[condition];
    throw InputError(cat("the graph was compiled for inputs of which ", e.str(), " is true, but ",
                         program::symbols_text(*blueprint_.program, e, symbols_)));
  }
}

void Sizes::evaluate(size_t epoch) {
  ++now_;
  const auto lookup = [&](const std::string& name) { return symbols_[blueprint_.symbol_index.at(name)]; };
  for (const int32_t e : blueprint_.epochs[epoch].exprs) {
    const Scalar value = npugraph::evaluate(blueprint_.program->exprs[e], lookup);
    if (value == values_[e] && changed_at_[e] > 0) continue;
    values_[e] = value;
    changed_at_[e] = now_;
  }
  if (epoch == 0) check_conditions();
  for (const ExprUse& use : blueprint_.epochs[epoch].uses) integers_[use.slot] = values_[use.expr].as_int();
  for (const int32_t w : blueprint_.epochs[epoch].windows) check_window(w);
}

bool Sizes::define(size_t epoch, std::span<const ng_scalar> defined) {
  bool changed = false;
  for (size_t i = 0; i < defined.size(); ++i) {
    const int32_t symbol = blueprint_.epochs[epoch].symbols[i];
    Scalar value{.kind = blueprint_.program->symbols[symbol].kind};
    if (value.kind == ScalarKind::kFloat) {
      value.f = defined[i].f;
    } else {
      value.i = defined[i].i;
    }
    changed |= !(value == symbols_[symbol]);
    symbols_[symbol] = value;
  }
  return changed;
}

bool Sizes::refresh(std::span<const int64_t> bits) {
  for (size_t i = 0; i < bits.size(); ++i) check_bounds(blueprint_.refreshed_symbols[i], bits[i]);
  bool changed = false;
  for (size_t i = 0; i < bits.size(); ++i) {
    Scalar& symbol = symbols_[blueprint_.refreshed_symbols[i]];
    changed |= symbol.i != bits[i];
    symbol.i = bits[i];
  }
  return changed;
}

Scalar Sizes::value(const program::Dim& dim) const {
  return dim.is_constant() ? Scalar::of_int(dim.constant) : values_[dim.expr];
}

std::span<const int64_t> Sizes::sizes(int32_t window) const {
  const Window& w = blueprint_.windows[window];
  return {at(w.sizes), w.operand->sizes.size()};
}

std::span<const int64_t> Sizes::strides(int32_t window) const {
  const Window& w = blueprint_.windows[window];
  return {at(w.strides), w.operand->strides.size()};
}

// "mul_1, operand 1 of task 3 (aten.mm at model.py:12 in forward)".
std::string Sizes::place_of(int32_t w) const {
  const Window& window = blueprint_.windows[w];
  const std::string& name = blueprint_.program->buffers[window.operand->buffer].name;
  if (window.task == program::kNone) return cat("output ", name);
  const program::Task& task = blueprint_.program->tasks[window.task];
  const std::string& source = task.source.empty() ? task.origin : task.source;
  return cat(name, name.empty() ? "" : ", ", "operand ", w - blueprint_.first_window[window.task], " of task ",
             window.task, " (", task.name, source.empty() ? "" : " at ", source, ")");
}

// Programs come from files and sizes from calls, so every window is checked unless it is proven to fit.
void Sizes::check_window(int32_t w) const {
  const Window& window = blueprint_.windows[w];
  const auto place = [&] { return place_of(w); };
  const auto of_key = [&] {
    const std::string key = key_text(blueprint_, symbols_);
    return key.empty() ? key : ", for " + key;
  };
  const int32_t b = window.operand->buffer;
  const program::Buffer& buffer = blueprint_.program->buffers[b];
  const bool given = buffer.cls == BufferClass::kInput || buffer.cls == BufferClass::kParameter;
  const auto refuse = [&](const std::string& what, int64_t value) {
    throw UserError(cat(what, " of ", place(), " is negative: ", value, of_key()));
  };
  for (size_t d = 0; d < sizes(w).size(); ++d) {
    if (sizes(w)[d] < 0) refuse(cat("size ", d), sizes(w)[d]);
    if (strides(w)[d] < 0) refuse(cat("stride ", d), strides(w)[d]);
  }
  if (offset(w) < 0 && !given) refuse("the place", offset(w));
  const bool ours = buffer.cls == BufferClass::kArena || buffer.cls == BufferClass::kOutput ||
                    buffer.cls == BufferClass::kConstant || buffer.preallocated;
  if (!ours || buffer.opaque || window.fits) return;
  const int64_t extent = extent_bytes(sizes(w), strides(w), window.operand->dtype);
  int64_t end = 0;
  if (extent > 0 && (__builtin_add_overflow(offset(w), extent, &end) || end > bytes(b))) {
    throw UserError(
        cat("a window of ", place(), " ends at byte ", end, " of buffer ", b, ", which has ", bytes(b), of_key()));
  }
}

Sizes evaluate_all(const Blueprint& blueprint, const std::vector<Scalar>& symbols) {
  Sizes sizes(blueprint, symbols);
  for (size_t epoch = 0; epoch < blueprint.epochs.size(); ++epoch) sizes.evaluate(epoch);
  return sizes;
}

std::string key_text(const Blueprint& blueprint, const std::vector<Scalar>& symbols) {
  std::string text;
  for (const int32_t s : blueprint.key_symbols) {
    const Scalar& value = symbols[s];
    text += cat(text.empty() ? "" : ", ", blueprint.program->symbols[s].name, "=", Expr::constant(value).str());
  }
  return text;
}

}  // namespace npugraph::runtime
