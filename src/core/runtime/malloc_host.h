// SPDX-License-Identifier: Apache-2.0
// A host without torch: objects are blocks of aligned memory. Thread-safe.
#pragma once

#include "runtime/host.h"

namespace npugraph::runtime {

class MallocHost : public Host {
 public:
  void* allocate(int64_t bytes, void** data) override;
  void retain(void* object) override;
  void release(void* object) override;
  // UserError: an opaque constant is an object of torch.
  void* constant_object(const program::Constant& constant) override;
};

}  // namespace npugraph::runtime
