// SPDX-License-Identifier: Apache-2.0
// Whether a run releases the GIL. A run below 20 microseconds keeps it: releasing and reacquiring the GIL costs as much
// as the shortest tasks, and a thread that takes it in between delays the run by a switch interval. Used under the GIL.
#pragma once

#include <chrono>
#include <cstdint>

namespace npugraph::calls {

class GilPolicy {
 public:
  static constexpr std::chrono::microseconds kShortRun{20};
  // One in so many of the runs that keep the GIL is timed.
  static constexpr uint32_t kTimedEvery = 64;

  // `may_wait`: a run may wait for something that needs the GIL, so every run releases it.
  explicit GilPolicy(bool may_wait) : may_wait_(may_wait) {}

  struct Run {
    bool releases = true;
    bool timed = true;  // note() is to be called with the time that the run took
  };
  Run next() {
    const bool releases = long_ || may_wait_;
    return {.releases = releases, .timed = releases || ++kept_ % kTimedEvery == 0};
  }
  void note(std::chrono::nanoseconds took) { long_ = took > kShortRun; }

 private:
  const bool may_wait_;
  bool long_ = true;  // whether the last timed run was long; true before the first one
  uint32_t kept_ = 0;
};

}  // namespace npugraph::calls
