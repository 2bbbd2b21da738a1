// SPDX-License-Identifier: Apache-2.0
// Runs of a task of the task ABI outside of a Program.
#pragma once

#include <optional>
#include <span>
#include <string>

#include <ATen/ATen.h>

#include "abi/task.h"
#include "tensor/dtype.h"

namespace npugraph::npu {

// The type that floating-point elements of this type have in generated code for this machine.
std::optional<DType> generated_dtype(at::ScalarType type);

// A window on a strided tensor, whose sizes and strides must outlive it. `dtype` is an ng_dtype.
ng_buffer buffer_of(const at::Tensor& tensor, int32_t dtype);

// Thread-safe: runs have their own state.
class EagerTask {
 public:
  explicit EagerTask(const ng_task& task) : task_(task) {}
  ~EagerTask();
  EagerTask(const EagerTask&) = delete;
  EagerTask& operator=(const EagerTask&) = delete;

  // Binds the task to these buffers and scalars and runs it. Returns nothing if it succeeds, else its message, which may
  // be empty.
  std::optional<std::string> run(std::span<ng_buffer> buffers, std::span<const ng_scalar> scalars = {}) const;

 private:
  ng_task task_;
};

}  // namespace npugraph::npu
