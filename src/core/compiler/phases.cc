// SPDX-License-Identifier: Apache-2.0
#include "compiler/phases.h"

namespace npugraph::compiler {

void trace_past_phases(const std::vector<PhaseTime>& phases) {
  if (!trace::enabled()) return;
  int64_t begin_ns = now_ns();
  for (const PhaseTime& phase : phases) begin_ns -= static_cast<int64_t>(phase.milliseconds * 1e6);
  for (const PhaseTime& phase : phases) {
    const int64_t end_ns = begin_ns + static_cast<int64_t>(phase.milliseconds * 1e6);
    trace::record({.name = phase.name,
                   .category = std::string(kTraceCategory),
                   .begin_ns = begin_ns,
                   .end_ns = end_ns,
                   .thread = trace::thread_id(),
                   .args = {}});
    begin_ns = end_ns;
  }
}

}  // namespace npugraph::compiler
