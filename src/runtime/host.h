// SPDX-License-Identifier: Apache-2.0
// What the runtime needs from the process around it. The torch side implements it on tensors; tools implement it on malloc.
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

namespace npugraph::runtime {

// Implementations are thread-safe.
class Host {
 public:
  virtual ~Host() = default;

  // A fresh object with `bytes` of 64-byte aligned memory; one reference, owned by the runtime. The address goes to `*data`.
  virtual void* allocate(int64_t bytes, void** data) = 0;
  // A replay that ends has allocated so many bytes: as many of those that are given back are worth keeping.
  virtual void expect(int64_t /*bytes*/) {}
  // An Executable goes: nothing is kept for its calls.
  virtual void trim() {}
  // Takes one more reference: two results may be windows of one object.
  virtual void retain(void* object) = 0;
  // Gives one reference back.
  virtual void release(void* object) = 0;
  // Where an object's memory is now: its owner may have resized it. Of a host that cannot say: nothing.
  virtual std::span<std::byte> memory_of(void* /*object*/) { return {}; }
  // An object, with one reference, that keeps the memory behind an input (BoundInput::storage). Null where this host cannot.
  virtual void* hold(void* /*storage*/) { return nullptr; }

  // The object of an opaque constant, borrowed.
  virtual void* constant_object(const program::Constant& constant) = 0;

  // The exception that a task of the calling thread threw last, which is forgotten; null where the host keeps none.
  virtual std::exception_ptr take_exception() { return nullptr; }
  // Keeps one as if a task of the calling thread had thrown it.
  virtual void keep_exception(std::exception_ptr /*thrown*/) {}

  // What the calling thread has set for the tasks that it runs: sets it for the thread that calls it until what that returns goes.
  // Empty: nothing is set.
  virtual std::function<std::shared_ptr<void>()> thread_state() { return {}; }

  // What the profiler calls the phases of a call.
  enum class Phase : uint8_t { kCapture, kWarmUp, kReplay, kEager };
  virtual const char* name_of(Phase phase) const {
    constexpr const char* kNames[] = {"capture", "warm_up", "replay", "eager_run"};
    return kNames[static_cast<size_t>(phase)];
  }
  // Begins a named stretch of time for the profiler of the process, to be ended in the same thread. Null where none is on.
  virtual void* begin_range(const char* /*name*/) { return nullptr; }
  virtual void end_range(void* /*range*/) {}

  // How many bytes before and behind the memory of each object of allocate() are nobody's: room for red zones, where they are on.
  virtual int64_t red_zone_bytes() const { return 0; }
};

// A stretch of time from construction to destruction. `name` null: none.
class Range {
 public:
  Range(Host& host, const char* name) : host_(host), range_(name == nullptr ? nullptr : host.begin_range(name)) {}
  ~Range() {
    if (range_ != nullptr) host_.end_range(range_);
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  Host& host_;
  void* const range_;
};

}  // namespace npugraph::runtime
