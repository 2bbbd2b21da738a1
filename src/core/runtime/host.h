// SPDX-License-Identifier: Apache-2.0
// The services that the runtime needs from the process around it. The torch side implements them on tensors; tools
// implement them on malloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "abi/task.h"
#include "program/program.h"
#include "runtime/options.h"

namespace npugraph::runtime {

// Implementations are thread-safe.
class Host {
 public:
  virtual ~Host() = default;

  // A fresh object with `bytes` of 64-byte aligned memory; one reference, owned by the runtime. The address goes to
  // `*data`.
  virtual void* allocate(int64_t bytes, void** data) = 0;
  // Called at the end of a replay of `graph` with the bytes that it allocated: as many released bytes are worth
  // keeping.
  virtual void expect(const void* /*graph*/, int64_t /*bytes*/) {}
  // Called when an Executable is destroyed or drops its captures: frees the memory kept for its calls.
  virtual void trim() {}
  // Takes one more reference: two results may be windows of one object.
  virtual void retain(void* object) = 0;
  // Gives one reference back.
  virtual void release(void* object) = 0;
  // The current memory of an object; its owner may have resized it. Empty if the host cannot tell.
  virtual std::span<std::byte> memory_of(void* /*object*/) { return {}; }
  // An object, with one reference, that keeps the memory behind an input (BoundInput::storage) alive. Null if the host
  // cannot do this.
  virtual void* hold(void* /*storage*/) { return nullptr; }

  // The object of an opaque constant, borrowed.
  virtual void* constant_object(const program::Constant& constant) = 0;

  // Takes the last exception of a task of the calling thread out of the host; null if the host keeps none.
  virtual std::exception_ptr take_exception() { return nullptr; }
  // Keeps an exception as if a task of the calling thread had thrown it.
  virtual void keep_exception(std::exception_ptr /*thrown*/) {}

  // The settings of the calling thread for the tasks that it runs. The function sets them in the thread that calls it,
  // until the object that it returns is destroyed. Empty if there are no settings.
  virtual std::function<std::shared_ptr<void>()> thread_state() { return {}; }
  // Called at the start of each call that captures a graph over memory of a device: the restrictions of `mode` apply
  // until the object that it returns is destroyed, when the call has run.
  virtual std::shared_ptr<void> watch_capture(CaptureErrorMode /*mode*/) { return nullptr; }

  // The names of the phases of a call in the profiler.
  enum class Phase : uint8_t { kCapture, kWarmUp, kReplay, kEager };
  virtual const char* name_of(Phase phase) const {
    constexpr const char* kNames[] = {"capture", "warm_up", "replay", "eager_run"};
    return kNames[static_cast<size_t>(phase)];
  }
  // Begins a named range of the process's profiler, to be ended in the same thread. Null if no profiler is on.
  virtual void* begin_range(const char* /*name*/) { return nullptr; }
  virtual void end_range(void* /*range*/) {}

  // Number of unused bytes before and after the memory of each object of allocate(): room for red zones, if they are
  // on.
  virtual int64_t red_zone_bytes() const { return 0; }
};

// A profiler range from construction to destruction; none if `name` is null.
class Range {
 public:
  Range(Host& host, const char* name) : host_(host), range_(name == nullptr ? nullptr : host.begin_range(name)) {}
  ~Range() {
    if (range_ != nullptr) host_.end_range(range_);
  }
  Range(const Range&) = delete;
  bool is_on() const { return range_ != nullptr; }
  Range& operator=(const Range&) = delete;

 private:
  Host& host_;
  void* const range_;
};

}  // namespace npugraph::runtime
