// SPDX-License-Identifier: Apache-2.0
// One Program, run inside of a task of another one. Its inputs lie where that task finds them: nothing is copied but what lies
// otherwise than the Program was compiled for.
//
// Not thread-safe; it belongs to one state of one task.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "runtime/executable.h"

namespace npugraph::bridge {

// A tensor in somebody else's memory, or, without sizes and data, a number.
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

  const program::Program& program() const { return executable_->program(); }
  // What it runs is dispatched as the thread does from now on, whatever guards live when it runs.
  void keep_keys() { keys_ = c10::impl::tls_local_dispatch_key_set(); }
  // Throws what a task has thrown, and UserError for a tensor of other sizes than the Program is for.
  void run(std::span<const NestedValue> inputs);
  // Result `number` of the last run, a tensor: in memory of its own, which nobody else holds. To be taken once.
  at::Tensor take(size_t number);
  // Result `number` of the last run, a number.
  at::Scalar scalar(size_t number) const;
  // What `value` is as input `number`, a number.
  at::Scalar scalar_input(size_t number, ng_scalar value) const;
  // Frees results that nobody took, and copies of inputs.
  void clear() noexcept;

 private:
  runtime::BoundInput bound(size_t number, const NestedValue& value);
  int64_t size_of(const program::Dim& dim) const;
  void drop_results();

  std::shared_ptr<runtime::Executable> executable_;
  std::span<const NestedValue> given_;  // of the run that begins
  std::vector<runtime::BoundInput> inputs_;
  std::vector<runtime::BoundOutput> outputs_;
  std::vector<int64_t> dims_;
  std::vector<at::Tensor> copies_;  // of inputs that lie otherwise
  c10::impl::LocalDispatchKeySet keys_ = c10::impl::tls_local_dispatch_key_set();
};

}  // namespace npugraph::bridge
