// SPDX-License-Identifier: Apache-2.0
// The output tensors of one call: where they lie, and how results get there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ge/api/run/call_inputs.h"
#include "ge/api/run/host_blocks.h"
#include "ge/api/tensor.h"
#include "program/program.h"
#include "runtime/call.h"

namespace npugraph::ge {

// Not thread-safe; belongs to one call.
class CallOutputs {
 public:
  // `wanted` is empty, or has one tensor for each output: one with data is written there, one without gets memory of
  // `host`. ApiError PARAM_INVALID if their number does not fit or data is too small, and for data that overlaps.
  CallOutputs(const program::Program& program, const CallInputs& inputs, std::span<const ::ge::Tensor> wanted,
              BlockHost& host);
  ~CallOutputs();
  CallOutputs(const CallOutputs&) = delete;
  CallOutputs& operator=(const CallOutputs&) = delete;

  // Row-major tensors, whose elements are there after finish().
  const std::vector<::ge::Tensor>& tensors() const { return tensors_; }
  std::span<const runtime::ResultMemory> memory() const { return memory_; }
  // Copies results that the run did not write to their tensors, and releases what it handed out. Tensors may lie in the
  // memory of inputs: results that are parts of inputs are read before anything is written there.
  void finish(const program::Program& program, std::span<const runtime::BoundOutput> results, const CallInputs& inputs);

 private:
  struct Strided {
    DType dtype = DType::kF32;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    bool is_dense() const;
    int64_t bytes() const;                                  // of the row-major tensor
    void copy(const void* from, uint8_t* row_major) const;  // the two may be the same memory if this is dense
  };
  static Strided layout_of(const program::Program& program, const program::Output& output, const CallInputs& inputs);
  void add(const ::ge::Tensor* wanted, const Strided& layout, BlockHost& host);
  bool lies_in(size_t i, const CallInputs& inputs) const;
  void place(size_t i, const program::Output& output, const CallInputs& inputs);
  void check_apart() const;

  std::vector<Strided> layouts_;  // of the results of the run
  std::vector<::ge::Tensor> tensors_;
  std::vector<runtime::ResultMemory> memory_;
};

}  // namespace npugraph::ge
