// SPDX-License-Identifier: Apache-2.0
#include "plan/steps.h"

namespace npugraph::plan {

void cut_segments(program::Program& program) {
  program.segments.clear();
  const auto num_tasks = static_cast<int32_t>(program.tasks.size());
  for (int32_t task = 0; task < num_tasks; ++task) {
    if (!program.tasks[task].defines.empty()) program.segments.push_back(task + 1);
  }
  if (program.segments.empty() || program.segments.back() != num_tasks) program.segments.push_back(num_tasks);
}

}  // namespace npugraph::plan
