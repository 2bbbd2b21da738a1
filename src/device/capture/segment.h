// SPDX-License-Identifier: Apache-2.0
// A part of a captured graph that replays run as one.
#pragma once

#include <c10/core/Stream.h>

#include "program/program.h"
#include "runtime/observation.h"

namespace npugraph::capture {

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

}  // namespace npugraph::capture
