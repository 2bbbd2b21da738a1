// SPDX-License-Identifier: Apache-2.0
// Work that one thread does in the order in which it came.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace npugraph::ge {

// Thread-safe.
class RunQueue {
 public:
  RunQueue() = default;
  // Does all the work that it has.
  ~RunQueue();
  RunQueue(const RunQueue&) = delete;
  RunQueue& operator=(const RunQueue&) = delete;

  // `work` must not throw. It is not added if its thread cannot be started: std::system_error.
  void add(std::function<void()> work);
  // Waits for the work that was added before.
  void wait();

 private:
  void serve();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;  // what is being done stands first
  uint64_t done_ = 0;                       // how much work was done
  bool ends_ = false;
  std::thread thread_;  // begins with the first work
};

}  // namespace npugraph::ge
