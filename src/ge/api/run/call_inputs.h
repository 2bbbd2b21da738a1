// SPDX-License-Identifier: Apache-2.0
// The input tensors of one call, checked against a Program.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ge/api/tensor.h"
#include "program/program.h"
#include "runtime/executable.h"
#include "tensor/expr.h"

namespace npugraph::ge {

// Not thread-safe; belongs to one call. `program` must outlive it.
class CallInputs {
 public:
  // Keeps the tensors alive. ApiError PARAM_INVALID if their number, types or sizes do not fit the Program.
  CallInputs(const program::Program& program, std::vector<::ge::Tensor> tensors);
  // The same if a tensor has less data than its shape needs.
  void check_data() const;

  std::span<const runtime::BoundInput> bound() const { return bound_; }
  int64_t value(const program::Dim& dim) const;
  std::vector<int64_t> values(const std::vector<program::Dim>& dims) const;
  // Whether one of the inputs has bytes in this range.
  bool overlaps(const void* data, int64_t bytes) const;

 private:
  std::string name(size_t i) const;
  [[noreturn]] void fail_shape(size_t i) const;
  void check_rank(size_t i) const;
  void find_symbols();
  int64_t bytes_of(size_t i) const;

  const program::Program& program_;
  const std::vector<::ge::Tensor> tensors_;
  std::vector<std::vector<int64_t>> sizes_;
  std::vector<runtime::BoundInput> bound_;
  std::map<std::string, Scalar> symbols_;
};

}  // namespace npugraph::ge
