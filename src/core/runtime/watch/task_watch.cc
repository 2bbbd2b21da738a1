// SPDX-License-Identifier: Apache-2.0
#include "runtime/watch/task_watch.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace npugraph::runtime {
namespace {

std::atomic<bool> is_set{false};
std::mutex watch_mutex;
std::shared_ptr<const TaskWatch> current;

}  // namespace

void set_task_watch(TaskWatch watch) {
  auto next = watch ? std::make_shared<const TaskWatch>(std::move(watch)) : nullptr;
  {
    const std::lock_guard lock(watch_mutex);
    is_set.store(next != nullptr, std::memory_order_relaxed);
    current.swap(next);
  }  // the old one is destroyed without the lock
}

std::shared_ptr<const TaskWatch> task_watch() {
  if (!is_set.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(watch_mutex);
  return current;
}

}  // namespace npugraph::runtime
