// SPDX-License-Identifier: Apache-2.0
// Several tasks that do not depend on each other as one, which runs them at the same time.
#pragma once

#include <vector>

#include "abi/task.h"
#include "codegen/task/part.h"

namespace npugraph::codegen {

// In nanoseconds.
struct GroupTimes {
  std::vector<double> parts;  // of each part in one thread
  double region = 0;          // of starting the threads and waiting for the last one
};

// No part may touch an element that another one writes, define symbols or allocate results. Each part runs in one
// thread if all parts are then done earlier, by these times, than one after the other in all threads; results do not
// depend on that. If parts fail, the error message is that of the first of them, and names it. The group owns the
// tasks.
ng_task make_group(std::vector<Part> parts, GroupTimes times);

// Whether the parts take less time at the same time, each in one of `workers` threads, than one after the other.
bool is_faster_together(const GroupTimes& times, int32_t workers);

}  // namespace npugraph::codegen
