// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include "base/error.h"
#include "plan/lanes.h"
#include "plan/steps.h"

namespace npugraph::plan {

void plan(program::Program& program) {
  // Classes first: only what stays in the arena is shared, and only what is on the heap is released.
  move_late_sizes_to_heap(program);
  find_lives(program);
  order_lanes(program);
  share_dying_buffers(program);
  // Last of what changes lives: sharing asks where program order ends them, and of the rest whether tasks are ordered.
  extend_lives(program);
  release_heap(program);
  cut_segments(program);

  const std::string violation = verify(program);
  NG_CHECK(violation.empty(), "the plan of ", program.name, ": ", violation);
}

}  // namespace npugraph::plan
