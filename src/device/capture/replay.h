// SPDX-License-Identifier: Apache-2.0
// What replays run, where, and how they name their errors.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <c10/core/Stream.h>
#include <c10/util/Exception.h>

#include "program/program.h"
#include "runtime/observation.h"

namespace npugraph::capture {

// A part of a captured graph that replays run as one.
class Segment {
 public:
  virtual ~Segment() = default;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // Runs the launches on the memory as it is now, in a replay on `stream`.
  // Throws what an operator throws. One call at a time.
  virtual void run(c10::Stream stream) = 0;
  // The launches as a Program. Thread-safe.
  virtual const program::Program& program() = 0;
  virtual runtime::MemoryInfo memory() = 0;

 protected:
  Segment() = default;
};

// Errors of replays say where they arose: a replay is far from the code that was captured. Calls `run`, and adds the
// text that `place()` returns to errors of torch that come out of it. Other exceptions, such as those of Python, stay
// as they are.
template <typename Run, typename Place>
void with_place(const Run& run, const Place& place) {
  try {
    run();
  } catch (c10::Error& error) {
    error.add_context(place());
    throw;
  }
}

// Throws if `result` is an error: what an operator threw, with the task that threw it.
void check_replay(const runtime::RunResult& result, const program::Program& program);

// Whether a Program may run while the threads of torch stand by (WorkerPool::with_team), where loops of torch run in
// one thread: its tasks compute in the pool, or so little that one thread does it. `bytes` are those of each buffer,
// INT64_MAX where they are not known; it may be empty if all sizes are constant.
bool runs_in_pool_alone(const program::Program& program, std::span<const int64_t> bytes = {});

}  // namespace npugraph::capture
