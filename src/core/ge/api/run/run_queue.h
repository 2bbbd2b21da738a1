// SPDX-License-Identifier: Apache-2.0
// Work that one thread does in the order in which it came.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ge/api/types.h"

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

// The queue behind a Stream, one for each stream of the process. Thread-safe.
class StreamQueue {
 public:
  // Does `run` after what was added before. Its exception becomes the failure of the stream, unless there is one, and
  // its warnings those of the stream.
  void add(std::function<void()> run);
  void wait() { queue_.wait(); }
  // The first failure since the last call.
  std::optional<std::pair<::ge::Status, std::string>> take_failure();
  // The warnings since the last call, each text once.
  std::vector<std::string> take_warnings();

 private:
  std::mutex mutex_;  // guards the next two
  std::optional<std::pair<::ge::Status, std::string>> failure_;
  std::vector<std::string> warnings_;
  RunQueue queue_;  // ends before what its work uses
};

void add_stream(const void* stream, std::shared_ptr<StreamQueue> queue);
void remove_stream(const void* stream);
// The queue of a stream; null for the null stream. ApiError GE_STREAM_INVALID if there is no such stream.
std::shared_ptr<StreamQueue> queue_of(const void* stream);

}  // namespace npugraph::ge
