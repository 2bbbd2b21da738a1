// SPDX-License-Identifier: Apache-2.0
// The clock of traces, reports and timings.
#pragma once

#include <chrono>
#include <cstdint>

namespace npugraph {

// Nanoseconds on the steady clock, from a start that is fixed within a process. Thread-safe.
inline int64_t now_ns() {
  const auto since_start = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count();
}

}  // namespace npugraph
