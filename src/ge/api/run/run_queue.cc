// SPDX-License-Identifier: Apache-2.0
#include "ge/api/run/run_queue.h"

#include <utility>

namespace npugraph::ge {

RunQueue::~RunQueue() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void RunQueue::add(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
    if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
  }
  changed_.notify_all();
}

void RunQueue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return work_.empty(); });
}

void RunQueue::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !work_.empty(); });
    if (work_.empty()) return;
    std::function<void()> work = std::move(work_.front());
    lock.unlock();
    work();
    work = nullptr;  // what it holds goes before somebody learns that it is done
    lock.lock();
    work_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace npugraph::ge
