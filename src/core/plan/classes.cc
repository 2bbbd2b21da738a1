// SPDX-License-Identifier: Apache-2.0
#include "plan/steps.h"

namespace npugraph::plan {

using program::Buffer;
using program::BufferClass;

void move_late_sizes_to_heap(program::Program& program) {
  const std::vector<int32_t> defining_task = defining_tasks(program);
  for (Buffer& buffer : program.buffers) {
    if (buffer.cls != BufferClass::kArena || buffer.bytes.is_constant()) continue;
    if (defining_task[buffer.bytes.expr] == program::kNone) continue;
    buffer.cls = BufferClass::kHeap;
    buffer.preallocated = true;
  }
}

}  // namespace npugraph::plan
