// SPDX-License-Identifier: Apache-2.0
// Runs of a task of the task ABI, or of generated code, outside of a Program: on which tensors, and with which services
// of the runtime.
#pragma once

#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "abi/task.h"
#include "backend/own_kernels/export.h"
#include "tensor/dtype.h"

namespace npugraph::own {

// Whether kernels may read and write the memory of a tensor themselves. False for tensors that stand for others: fake
// and functional ones, and those of other devices.
NPUGRAPH_EXPORT bool has_memory(const at::Tensor& tensor);

// Whether autograd records calls with these tensors, for which such kernels have no gradient.
NPUGRAPH_EXPORT bool wants_gradient(std::initializer_list<const at::Tensor*> tensors);

// Services of the runtime (ng_host) for one call in eager mode. Loops run in the threads of the pool.
class EagerHost {
 public:
  NPUGRAPH_EXPORT EagerHost();
  EagerHost(const EagerHost&) = delete;
  EagerHost& operator=(const EagerHost&) = delete;

  const ng_host* table() const { return &table_; }
  // Message of the task, empty if it gave none.
  const std::string& error() const { return error_; }

 private:
  static void parallel_for(const ng_host* host, int64_t begin, int64_t end, int64_t grain,
                           void (*body)(void* arg, int64_t begin, int64_t end), void* arg);
  static void set_error(const ng_host* host, const char* message);

  ng_host table_;
  std::string error_;
};

// The type that floating-point elements of this type have in generated code for this machine.
NPUGRAPH_EXPORT std::optional<DType> generated_dtype(at::ScalarType type);

// A window on a strided tensor, whose sizes and strides must outlive it. `dtype` is an ng_dtype.
ng_buffer buffer_of(const at::Tensor& tensor, int32_t dtype);

// Thread-safe: each run has a binding of its own.
class EagerTask {
 public:
  explicit EagerTask(const ng_task& task) : task_(task) {}
  ~EagerTask();
  EagerTask(const EagerTask&) = delete;
  EagerTask& operator=(const EagerTask&) = delete;

  // Binds the task to these buffers and scalars and runs it. Returns nothing if it succeeds, else its message, which
  // may be empty.
  std::optional<std::string> run(std::span<ng_buffer> buffers, std::span<const ng_scalar> scalars = {}) const;

 private:
  // Sizes and strides of the buffers, and scalars: all that a binding depends on.
  using Key = c10::SmallVector<int64_t, 48>;
  struct Binding {
    Key key;
    void* state = nullptr;
    int64_t workspace = 0;  // bytes
  };

  static Key key_of(const ng_call& call);
  // A binding that no other run uses: a kept one, or a new one. Null if the task refuses the call.
  std::unique_ptr<Binding> take(const ng_call& call) const;
  // Keeps a binding for later runs, instead of the one that was not taken for longest if there are many.
  void give_back(std::unique_ptr<Binding> binding) const;
  void unbind(const Binding& binding) const;

  ng_task task_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Binding>> kept_;  // guarded by mutex_; the one that was taken last is last
};

}  // namespace npugraph::own
