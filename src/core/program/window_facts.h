// SPDX-License-Identifier: Apache-2.0
// Whether windows lie in their buffers, and whether they share memory, decided before sizes are known.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "program/program.h"

namespace npugraph::program {

// Whether a window that has elements lies in its buffer: for all values of symbols, for none, or undecided. The proof
// assumes that sizes, strides and storage offsets of inputs and sizes that tasks define are not negative, and that each
// size of a window that has elements is at least 1.
enum class Fit : uint8_t { kAlways, kNever, kUnknown };

// Decides for the operands of one Program and caches the answers. Requires that verify() has checked the Program's
// inputs and buffers, and that the Program does not change.
class WindowFits {
 public:
  explicit WindowFits(const Program& program);

  // Requires that every index of the operand is valid, and that strides are not negative.
  Fit of(const Operand& operand);

 private:
  using Numbers = std::vector<std::pair<int64_t, int32_t>>;  // constants and expressions of dims
  Fit prove(const Operand& operand) const;

  const Program& program_;
  std::unordered_set<std::string> counts_;  // names of symbols that are not negative
  std::map<Numbers, Fit> known_;
};

// Whether two windows of one Program surely have no byte in common: they lie in different buffers, in different ranges
// of one, or they are different parts of one array, such as the parts of a concatenation. Sizes may be expressions in
// the outermost dimension only. Different buffers are taken as different memory, also those of inputs.
bool are_disjoint(const Operand& a, const Operand& b);

}  // namespace npugraph::program
