// SPDX-License-Identifier: Apache-2.0
// How long the phases of a compile took, for people and in the trace.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/trace.h"

namespace npugraph::compiler {

struct PhaseTime {
  std::string name;
  double milliseconds = 0;
};

// The category of phases and passes in the trace.
inline constexpr std::string_view kTraceCategory = "compile";

// Runs one phase with its timer and trace span.
template <typename Fn>
auto run_phase(std::vector<PhaseTime>& times, const char* name, Fn&& fn) {
  const trace::Span span(name, kTraceCategory);
  struct Stop {
    std::vector<PhaseTime>& times;
    const char* name;
    int64_t begin = now_ns();
    ~Stop() { times.push_back({name, static_cast<double>(now_ns() - begin) * 1e-6}); }
  } const stop{times, name};
  return fn();
}

// Adds phases that were timed elsewhere to the trace: one after the other, the last one ends now.
void trace_past_phases(const std::vector<PhaseTime>& phases);

}  // namespace npugraph::compiler
