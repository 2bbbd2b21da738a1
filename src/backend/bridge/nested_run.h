// SPDX-License-Identifier: Apache-2.0
// Runs one Program inside a task of another one. Its inputs stay where that task finds them; only inputs with other
// strides than the Program was compiled for are copied.
//
// Not thread-safe; it belongs to one state of one task.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "runtime/executable.h"

namespace npugraph::bridge {

// A tensor in memory that others own, or, without sizes and data, a number.
struct NestedValue {
  void* data = nullptr;
  at::IntArrayRef sizes;
  at::IntArrayRef strides;  // in elements
  ng_scalar scalar{};
};

class NestedRun {
 public:
  explicit NestedRun(std::shared_ptr<runtime::Executable> executable);
  ~NestedRun();
  NestedRun(const NestedRun&) = delete;
  NestedRun& operator=(const NestedRun&) = delete;

  const program::Program& program() const { return program_; }
  // Later runs dispatch with the keys that the calling thread has now, whatever guards are alive then.
  void keep_keys() { keys_ = c10::impl::tls_local_dispatch_key_set(); }
  // Throws the exception of a failed task, and UserError for a tensor of other sizes than the Program was traced for.
  void run(std::span<const NestedValue> inputs);
  // Result `number` of the last run, which must be a tensor, in memory that nobody else holds. May be taken once.
  at::Tensor take(size_t number);
  // Result `number` of the last run, which must be a number.
  at::Scalar scalar(size_t number) const;
  // `value` with the scalar kind of input `number`, which must be a number.
  at::Scalar scalar_input(size_t number, ng_scalar value) const;
  // Frees results that were not taken, and copies of inputs.
  void clear() noexcept;

 private:
  runtime::BoundInput bound(size_t number, const NestedValue& value);
  int64_t size_of(const program::Dim& dim) const;
  void drop_results();

  std::shared_ptr<runtime::Executable> executable_;
  const program::Program& program_;
  std::span<const NestedValue> given_;  // inputs of the last run
  std::vector<runtime::BoundInput> inputs_;
  std::vector<runtime::BoundOutput> outputs_;
  std::vector<int64_t> dims_;
  std::vector<at::Tensor> copies_;  // of inputs with other strides than compiled for
  c10::impl::LocalDispatchKeySet keys_ = c10::impl::tls_local_dispatch_key_set();
};

}  // namespace npugraph::bridge
