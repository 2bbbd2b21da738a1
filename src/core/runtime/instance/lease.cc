// SPDX-License-Identifier: Apache-2.0
#include "runtime/instance/lease.h"

#include <atomic>
#include <mutex>

#include "base/error.h"
#include "runtime/threads/worker_pool.h"

namespace npugraph::runtime {
namespace {

void parallel_for(const ng_host*, int64_t begin, int64_t end, int64_t grain, RangeBody body, void* arg) {
  WorkerPool::instance().parallel_for(begin, end, grain, body, arg);
}

void set_error(const ng_host* host, const char* message) {
  auto& lease = *static_cast<Lease*>(host->self);
  const std::lock_guard lock(lease.error_mutex);
  lease.error = message == nullptr ? "" : message;
}

void count_copied(const ng_host* host, int64_t bytes) {
  std::atomic_ref(static_cast<Lease*>(host->self)->copied_bytes).fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace

Lease::Lease(const std::string& owner, int32_t lease_index, BlockSource& source, const ConstantMemory& shared_constants)
    : index(lease_index),
      constants(shared_constants),
      memory(cat(owner, "#", lease_index), owner, source),
      service{.self = this,
              .workers = 1,
              .parallel_for = parallel_for,
              .set_error = set_error,
              .count_copied = count_copied} {}

}  // namespace npugraph::runtime
