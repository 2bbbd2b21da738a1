// SPDX-License-Identifier: Apache-2.0
#include "backend/own_kernels/eager_host.h"

#include "runtime/threads/worker_pool.h"

namespace npugraph::own {

EagerHost::EagerHost()
    : table_{this, runtime::WorkerPool::instance().size(), parallel_for, set_error, [](const ng_host*, int64_t) {}} {}

void EagerHost::parallel_for(const ng_host*, int64_t begin, int64_t end, int64_t grain,
                             void (*body)(void* arg, int64_t begin, int64_t end), void* arg) {
  runtime::WorkerPool::instance().parallel_for(begin, end, grain, body, arg);
}

void EagerHost::set_error(const ng_host* host, const char* message) {
  static_cast<EagerHost*>(host->self)->error_ = message;
}

}  // namespace npugraph::own
