// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include "base/error.h"
#include "plan/steps.h"
#include "plan/strands.h"

namespace npugraph::plan {

void plan(program::Program& program) {
  // Classes first: only arena buffers are shared, and only heap buffers are released.
  move_late_sizes_to_heap(program);
  find_lives(program);
  order_strands(program);
  share_dying_buffers(program);
  // The last step that changes lives: sharing needs their ends in program order, and checks the order of tasks of
  // several streams itself.
  extend_lives(program);
  release_heap(program);
  cut_segments(program);

  const std::string violation = verify(program);
  NG_CHECK(violation.empty(), "the plan of ", program.name, ": ", violation);
}

}  // namespace npugraph::plan
