// SPDX-License-Identifier: Apache-2.0
// The input tensors of one call, checked against a Program.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ge/api/run/host_blocks.h"
#include "ge/api/tensor.h"
#include "program/call_symbols.h"
#include "program/program.h"
#include "runtime/call.h"

namespace npugraph::ge {

// Not thread-safe; belongs to one call. `program` must outlive it.
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

}  // namespace npugraph::ge
