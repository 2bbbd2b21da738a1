// SPDX-License-Identifier: Apache-2.0
// Which streams are captured, and which wait for an ExternalEvent. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <unordered_map>

#include <c10/core/Stream.h>

#include "device/npu/call_record.h"
#include "runtime/options.h"

namespace npugraph::capture {

class Capture;

// Waiting for a captured stream is an error in all modes.
using ErrorMode = runtime::CaptureErrorMode;

// How many launches of each stream have happened.
using Progress = std::unordered_map<c10::Stream, int64_t>;

namespace detail {
extern std::atomic<int64_t> watched;  // captured and waiting streams
}

// Whether a launch has to ask for captures and stopped streams at all.
inline bool is_watching() noexcept { return detail::watched.load(std::memory_order_relaxed) != 0; }

// Begins or ends a capture in its stream. c10::Error when the stream is captured already.
void begin(std::shared_ptr<Capture> capture);
void end(const Capture& capture);

// The capture that `stream` belongs to, or null.
std::shared_ptr<Capture> capture_of(c10::Stream stream);
// The capture that records a launch of the calling thread in `stream`; null also inside of a launch. c10::Error if the
// stream waits for an ExternalEvent.
std::shared_ptr<Capture> recorder_of(c10::Stream stream);

// c10::Error when the host may not do `what`, which waits for `stream`, or for all streams of an existing `device`.
void check_host_may_wait(const char* what, c10::Stream stream);
void check_host_may_wait(const char* what, c10::DeviceIndex device);
// c10::Error when the calling thread may not do `what`, which takes raw memory of a device or frees cached memory.
void check_host_may_allocate(const char* what);

// While alive, launches of the calling thread are not recorded: they are parts of a recorded launch, or of a replay.
class Inside {
 public:
  Inside() { ++npu::this_call.inside_launch; }
  ~Inside() { --npu::this_call.inside_launch; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};
inline bool is_inside() noexcept { return npu::this_call.inside_launch != 0; }  // the calling thread

// While alive, the calling thread captures a compiled graph by running it. Nothing is recorded, but the restrictions of
// `mode` apply.
class CompiledCapture {
 public:
  explicit CompiledCapture(ErrorMode mode);
  ~CompiledCapture();
  CompiledCapture(const CompiledCapture&) = delete;
  CompiledCapture& operator=(const CompiledCapture&) = delete;

  bool forbids() const;  // in the calling thread
  ErrorMode mode() const { return mode_; }

 private:
  const ErrorMode mode_;
  const std::thread::id thread_ = std::this_thread::get_id();
};

// A point in a stream, as an event keeps it.
struct Mark {
  std::weak_ptr<Capture> capture;
  Progress seen;
};
Mark mark(c10::Stream stream);
// Makes `stream` wait for the mark: it joins the capture that the mark was made in. c10::Error if it is in another one.
void wait_for(const Mark& mark, c10::Stream stream);
void check_host_may_wait(const char* what, const Mark& mark);

}  // namespace npugraph::capture
