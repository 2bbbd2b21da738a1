// SPDX-License-Identifier: Apache-2.0
// Events that graphs and the program around them use to wait for each other: torch.npu.ExternalEvent.
//
// Nothing runs asynchronously on this device, so a replay that waits stops, and
// recording the event continues it. Thread-safe.
#pragma once

#include <functional>
#include <memory>

#include <c10/core/Stream.h>

namespace npugraph::capture {

class ExternalEvent : public std::enable_shared_from_this<ExternalEvent> {
 public:
  // In a captured stream these calls become part of the graph.
  void record(c10::Stream stream);
  void wait(c10::Stream stream);
  void reset(c10::Stream stream);

  // The same in a replay. happen() continues the streams that wait. wait_or_stop() returns false if `stream` stops:
  // `go_on` is called when the event is recorded.
  void happen(c10::Stream stream);
  bool wait_or_stop(c10::Stream stream, std::function<void()> go_on);
  void forget();

 private:
  bool happened_ = false;  // guarded by the mutex of all streams
};

// c10::Error when `stream`, or with `whole_device` any stream of its device, has stopped.
void check_runs(const char* what, c10::Stream stream, bool whole_device);

}  // namespace npugraph::capture
