// SPDX-License-Identifier: Apache-2.0
// The queue behind a Stream, and the streams of the process.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ge/api/run/run_queue.h"
#include "ge/api/types.h"

namespace npugraph::ge {

// Thread-safe.
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
