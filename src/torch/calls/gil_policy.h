// SPDX-License-Identifier: Apache-2.0
// Whether a run gives the GIL away. A run below 20 microseconds keeps it: giving the GIL away and taking it back costs as much as
// the shortest tasks, and a thread that takes it in between holds the run up for a switch interval. Used under the GIL.
#pragma once

#include <chrono>
#include <cstdint>

namespace npugraph::calls {

class GilPolicy {
 public:
  static constexpr std::chrono::microseconds kShortRun{20};
  // Of the runs that keep the GIL, one in so many is timed.
  static constexpr uint32_t kTimedEvery = 64;

  // `may_wait`: others may need the GIL for what a run waits for, so every run gives it away.
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
  bool long_ = true;  // what the last timed run was; nothing is known before the first one
  uint32_t kept_ = 0;
};

}  // namespace npugraph::calls
