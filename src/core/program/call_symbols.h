// SPDX-License-Identifier: Apache-2.0
// Symbols of one call whose inputs nobody has checked yet, and inputs in words for what is wrong with them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"
#include "tensor/expr.h"

namespace npugraph::program {

// Not thread-safe. The Program must outlive it.
class CallSymbols {
 public:
  explicit CallSymbols(const Program& program) : program_(program) {}

  // The value of a symbol that comes from an input. UserError if it is out of the bounds of the symbol.
  void set(const Symbol& symbol, const Scalar& value);
  // Numbers that follow from symbols that have been set.
  int64_t value(const Dim& dim) const;
  std::vector<int64_t> values(std::span<const Dim> dims) const;
  // " with s0=4, s1=8"; empty if nothing has been set.
  std::string text() const;

 private:
  const Program& program_;
  std::map<std::string, Scalar> values_;
};

// "input 0 (L['x'])"
std::string input_name(const Program& program, size_t input);
// What a symbol of an input stands for: "size 1 of input 0 (L['x'])".
std::string symbol_source(const Program& program, const Symbol& symbol);
// "s0 (size 1 of input 0 (L['x'])) is 6 and n (input 1 (L['n'])) is 2": the symbols of inputs in `e`, with their
// values.
std::string symbols_text(const Program& program, const Expr& e, std::span<const Scalar> values);
// A task for error messages: "aten.mm (model.py:12 in forward)".
std::string place_of(const Task& task);
// "f32[2, 3]" and "f32[s0, 3]", where "f32" is the type.
std::string shape_text(std::string_view type, std::span<const int64_t> sizes);
std::string shape_text(const Program& program, std::string_view type, std::span<const Dim> sizes);

}  // namespace npugraph::program
