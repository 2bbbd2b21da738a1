// SPDX-License-Identifier: Apache-2.0
// The numbers of a Program under given symbol values: each distinct expression evaluated once, and every size, stride,
// offset and length that follows, in one block of integers whose slots the Blueprint assigns.
//
// Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/instance/blueprint.h"

namespace npugraph::runtime {

class Sizes {
 public:
  // `symbols` are the values of all symbols; those that tasks define may be anything. InputError for one that
  // comes from an input and is out of its bounds.
  Sizes(const Blueprint& blueprint, std::vector<Scalar> symbols);

  // Evaluates what becomes known at `epoch` and checks it: InputError when a condition of the Program is false,
  // UserError when an expression cannot be evaluated, when a size is negative, or when a window does not fit its
  // buffer.
  void evaluate(size_t epoch);
  // Sets the symbols that the segment before `epoch` defined. False if they are unchanged.
  bool define(size_t epoch, std::span<const ng_scalar> defined);
  // Sets Blueprint::refreshed_symbols. False if they are unchanged. InputError for one that is out of its bounds.
  bool refresh(std::span<const int64_t> bits);

  const std::vector<Scalar>& symbols() const { return symbols_; }
  Scalar value(int32_t expr) const { return values_[expr]; }
  Scalar value(const program::Dim& dim) const;
  const int64_t* at(int32_t slot) const { return &integers_[slot]; }
  int64_t offset(int32_t window) const { return integers_[blueprint_.windows[window].offset]; }
  // The length of a buffer may evaluate to a negative number if several sizes are 0; the buffer is then empty.
  int64_t bytes(int32_t buffer) const { return std::max<int64_t>(integers_[blueprint_.bytes_slot[buffer]], 0); }
  std::span<const int64_t> sizes(int32_t window) const;
  std::span<const int64_t> strides(int32_t window) const;

  // Number of evaluations so far, and the evaluation in which an expression last changed its value.
  int64_t now() const { return now_; }
  int64_t changed_at(int32_t expr) const { return changed_at_[expr]; }

 private:
  void check_bounds(int32_t symbol, int64_t value) const;
  void check_conditions() const;
  void check_window(int32_t w) const;
  std::string place_of(int32_t w) const;

  const Blueprint& blueprint_;
  std::vector<Scalar> symbols_;
  std::vector<Scalar> values_;
  std::vector<int64_t> integers_;
  std::vector<int64_t> changed_at_;
  int64_t now_ = 0;
};

// All epochs evaluated for the symbols of a call.
Sizes evaluate_all(const Blueprint& blueprint, const std::vector<Scalar>& symbols);
// "s0=4, s1=128": the symbols that tell Instances apart.
std::string key_text(const Blueprint& blueprint, const std::vector<Scalar>& symbols);

}  // namespace npugraph::runtime
