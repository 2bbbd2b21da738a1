// SPDX-License-Identifier: Apache-2.0
#include "device/capture/replay_errors.h"

#include <optional>

#include "backend/bridge/run_result.h"
#include "base/error.h"

namespace npugraph::capture {

namespace {

std::string place_in(const program::Program& program, std::optional<int32_t> number) {
  if (!number) return cat("in ", program.name, " of a captured graph");
  const program::Task& task = program.tasks[*number];
  const std::string& source = task.source.empty() ? task.origin : task.source;
  return cat("in ", task.name, source.empty() ? "" : cat(" (", source, ")"), ", task ", *number + 1, " of ",
             program.tasks.size(), " of ", program.name, " in a captured graph");
}

}  // namespace

void check_replay(const runtime::RunResult& result, const program::Program& program) {
  with_place([&] { bridge::check_run(result, program); }, [&] { return place_in(program, result.task); });
}

}  // namespace npugraph::capture
