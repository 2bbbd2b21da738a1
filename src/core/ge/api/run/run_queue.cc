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
    if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
    work_.push_back(std::move(work));
  }
  changed_.notify_all();
}

void RunQueue::wait() {
  std::unique_lock lock(mutex_);
  const uint64_t added = done_ + work_.size();
  changed_.wait(lock, [&] { return done_ >= added; });
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
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace npugraph::ge
