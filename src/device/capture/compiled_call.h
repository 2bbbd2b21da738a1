// SPDX-License-Identifier: Apache-2.0
// A call of a compiled graph in a captured one. Each replay runs its Program on the same inputs, and its results go
// where the capture had them. One run at a time.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "runtime/executable.h"
#include "runtime/observation.h"

namespace npugraph::capture {

class CompiledCall {
 public:
  // `tensors` has one tensor for each input, whose memory is bound; undefined for scalars.
  CompiledCall(std::shared_ptr<runtime::Executable> executable, runtime::BoundInputs inputs,
               std::vector<at::Tensor> tensors);

  // One tensor for each output of the captured call; undefined for outputs that are not tensors.
  void set_results(std::vector<at::Tensor> results);
  const std::vector<at::Tensor>& inputs() const { return tensors_; }
  const program::Program& program() const { return program_; }
  runtime::MemoryInfo memory() const { return runtime::Observation(*executable_).memory(); }

  // To be asked after the first run (runs_in_pool_alone).
  bool runs_in_pool_alone() const;

  // Throws what an operator throws.
  void run();

 private:
  void bind();
  void take(size_t output);

  std::shared_ptr<runtime::Executable> executable_;
  const program::Program& program_;
  std::vector<runtime::BoundInput> bound_;
  const runtime::CallingStream stream_;  // on which it was captured
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> results_;
  std::vector<runtime::ResultMemory> memory_;  // of results_; empty if results are only copied there
  std::vector<runtime::BoundOutput> outputs_;
  std::vector<int64_t> dims_;
  uint64_t version_ = 0;  // of bound_
};

}  // namespace npugraph::capture
