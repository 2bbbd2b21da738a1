// SPDX-License-Identifier: Apache-2.0
// A host without torch: objects are blocks of aligned memory, and only precompiled kernels run. Thread-safe.
#pragma once

#include "runtime/host.h"

namespace npugraph::runtime {

class MallocHost : public Host {
 public:
  // UserError that names the operator for a task that is no kernel, and for a kernel that this build does not have.
  ng_task build(const program::Program& program, const program::Task& task) override;
  void* allocate(int64_t bytes, void** data) override;
  void retain(void* object) override;
  void release(void* object) override;
  // UserError: an opaque constant is an object of torch.
  void* constant_object(const program::Constant& constant) override;
};

}  // namespace npugraph::runtime
