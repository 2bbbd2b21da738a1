// SPDX-License-Identifier: Apache-2.0
// Services of the runtime (ng_host) for tasks and generated code that run in eager mode.
#pragma once

#include <string>

#include "abi/task.h"
#include "backend/own_kernels/export.h"

namespace npugraph::own {

// For one call. Loops run in the threads of the pool.
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

}  // namespace npugraph::own
