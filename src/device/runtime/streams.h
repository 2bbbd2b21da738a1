// SPDX-License-Identifier: Apache-2.0
// Streams and events of the npu device. Eager work is done when its call returns, so a stream is only a name,
// everything is always synchronised, and an event is the time at which it was recorded. In a capture they determine
// which streams belong to it (device/capture), and the host may not wait for them. Limits of
// cores belong to streams.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include <c10/core/Stream.h>

#include "device/capture/registry.h"
#include "tensor/core_limits.h"

namespace npugraph::device {

c10::Stream default_stream(c10::DeviceIndex device);
// A stream with an id that no other stream has.
c10::Stream new_stream(c10::DeviceIndex device);

// A number that no other stream of any device has, never 0; and back. c10::Error
// if the number stands for no stream of a device.
uintptr_t handle_of(c10::Stream stream);
c10::Stream stream_of_handle(uintptr_t handle);

// The current stream of the calling thread on a device; the default stream at first.
c10::Stream current_stream(c10::DeviceIndex device);
// Makes `stream` the current one of its device, and returns the one before.
c10::Stream exchange_stream(c10::Stream stream);

// Thread-safe.
class Event {
 public:
  explicit Event(bool timed) : timed_(timed) {}

  void record(c10::Stream stream);
  bool is_recorded() const { return nanoseconds_.load(std::memory_order_acquire) != 0; }
  bool is_timed() const { return timed_; }
  // Time of the last record, by a steady clock; 0 before the first record.
  int64_t nanoseconds() const { return nanoseconds_.load(std::memory_order_acquire); }
  c10::StreamId stream() const { return stream_.load(std::memory_order_relaxed); }
  // The place in a capture where the event was recorded last.
  capture::Mark mark() const;

 private:
  const bool timed_;
  std::atomic<int64_t> nanoseconds_ = 0;
  std::atomic<c10::StreamId> stream_ = 0;
  mutable std::mutex mutex_;
  capture::Mark mark_;  // guarded by the mutex
};

// The event at `address`, as torch keeps it. c10::Error when it is null, was not recorded or keeps no time.
const Event& timed_event(const void* address);

// Both must have been recorded.
double milliseconds_between(const Event& begin, const Event& end);

// Makes the device known to c10: current device, streams and events. Once per process.
void register_guard();

// Limits of the cube and vector cores that work of a device or of a stream may use. Compiled graphs that are called on
// the stream obey them; eager work does not. Thread-safe.
//
// All cores of the device, unless it was limited.
CoreLimits device_limits(c10::DeviceIndex device);
void limit_device(c10::DeviceIndex device, CoreLimits limits);

// The limits of the stream, or else those of its device.
CoreLimits stream_limits(c10::Stream stream);
void limit_stream(c10::Stream stream, CoreLimits limits);
void reset_stream_limits(c10::Stream stream);

// stream_limits(), with 0 for all cores of the device. Costs one load until limits are set.
CoreLimits limits_in_force(c10::Stream stream);

}  // namespace npugraph::device
