// SPDX-License-Identifier: Apache-2.0
// The tensors of one call against a Program: checked, to and from its strides.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ge/api/run/graph_memory.h"
#include "ge/api/tensor.h"
#include "program/call_symbols.h"
#include "program/program.h"
#include "runtime/call.h"

namespace npugraph::ge {

// Not thread-safe. `program` must outlive it.
class CallInputs {
 public:
  // Keeps the tensors alive. ApiError PARAM_INVALID if their number, types or sizes do not fit the Program.
  CallInputs(const program::Program& program, std::vector<::ge::Tensor> tensors);

  // To be called before what follows. Takes memory of `host` for inputs that the Program reads with other strides than
  // those of a row-major tensor. ApiError PARAM_INVALID if a tensor has less data than its shape needs, or if one that
  // is copied and one that the Program writes overlap.
  void take_data(BlockHost& host);
  // Before the run: copies such inputs to their strides.
  void lay_out();
  // After the run: copies those that the Program wrote to their tensors.
  void write_back();

  std::span<const runtime::BoundInput> bound() const { return bound_; }
  std::vector<int64_t> values(std::span<const program::Dim> dims) const { return symbols_.values(dims); }
  // Whether one of the tensors has bytes in this range.
  bool overlaps(const void* data, int64_t bytes) const;

 private:
  struct Release {
    void operator()(void* object) const { BlockHost::release_block(object); }
  };
  // An input that is copied.
  struct Laid {
    size_t input = 0;
    std::vector<int64_t> strides;
    std::unique_ptr<void, Release> object;
  };

  std::string name(size_t i) const;
  [[noreturn]] void fail_shape(size_t i) const;
  void check_rank(size_t i) const;
  void check_apart(size_t laid) const;
  void find_symbols();
  int64_t bytes_of(size_t i) const;  // of the tensor
  bool has_bytes_in(size_t i, const void* data, int64_t bytes) const;

  const program::Program& program_;
  std::vector<::ge::Tensor> tensors_;
  std::vector<std::vector<int64_t>> sizes_;
  std::vector<runtime::BoundInput> bound_;
  std::vector<Laid> laid_;
  program::CallSymbols symbols_;
};

// Where the outputs lie, and how results get there. Not thread-safe.
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
