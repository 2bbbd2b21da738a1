// SPDX-License-Identifier: Apache-2.0
// What a stream is on this host: a queue with one thread of its own.
#pragma once

#include <memory>

#include "ge/api/types.h"

namespace npugraph::ge {
class StreamQueue;
}

namespace ge {

// Runs that are put on a stream are done one after the other, in the order in which they were put there. Runs on
// different streams may run at the same time. Functions that take a `void* stream` take the address of such an object;
// null means no stream: the run is done when the function returns. Thread-safe.
class Stream {
 public:
  Stream();
  // Waits for the runs on it.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Waits for the runs that were put on it before. Returns the status of the first one that failed since the last call,
  // with its message; GEGetWarningMsg() has the warnings of these runs.
  Status Synchronize();

 private:
  std::shared_ptr<npugraph::ge::StreamQueue> queue_;
};

}  // namespace ge
