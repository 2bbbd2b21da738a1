// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <optional>

#include "plan/steps.h"
#include "program/task_order.h"

namespace npugraph::plan {
namespace {

using program::Access;
using program::Buffer;
using program::BufferClass;
using program::kNone;
using program::Operand;
using program::Program;
using program::Task;

// Whether the declaration covers all that the task does with the buffer of the declared operand. Windows may interleave
// inside one buffer, so it covers no further operand of that buffer. The exception is an earlier operand that writes
// the elements which the declared one reads: the task itself stores them before it reads them.
bool covered(const Task& task, const Operand& declared) {
  return std::ranges::all_of(task.operands, [&](const Operand& o) {
    return &o == &declared || o.buffer != declared.buffer ||
           (&o < &declared && declared.access == Access::kRead && o.access == Access::kWrite &&
            same_elements(o, declared));
  });
}

// Whether no other task touches the buffer while this one runs or later.
bool is_last_touch(const Program& program, const program::TaskOrder* order, int32_t buffer, int32_t task_index) {
  for (int32_t t = 0; order != nullptr && t < task_index; ++t) {
    const auto& operands = program.tasks[t].operands;
    const bool touches = std::ranges::find(operands, buffer, &Operand::buffer) != operands.end();
    if (touches && !order->precedes(t, task_index)) return false;
  }
  return program.buffers[buffer].last_task == task_index;
}

bool can_share(const Program& program, const program::TaskOrder* order, int32_t task_index,
               const program::Share& share) {
  const Task& task = program.tasks[task_index];
  const Operand& written = task.operands[share.written];
  const Operand& read = task.operands[share.read];
  const Buffer& fresh = program.buffers[written.buffer];
  const Buffer& dying = program.buffers[read.buffer];
  return written.access == Access::kWrite && read.access == Access::kRead &&                          //
         fresh.cls == BufferClass::kArena && dying.cls == BufferClass::kArena &&                      //
         fresh.first_task == task_index && is_last_touch(program, order, read.buffer, task_index) &&  //
         fresh.bytes == dying.bytes && same_elements(written, read) &&                                //
         covered(task, written) && covered(task, read);
}

}  // namespace

void share_dying_buffers(Program& program) {
  // Buffer i has become buffer moved_to[i]. The operands of a task are renamed when the loop reaches it: a buffer moves
  // at its first task.
  std::vector<int32_t> moved_to(program.buffers.size());
  std::optional<program::TaskOrder> order;
  if (program::has_streams(program)) order.emplace(program);
  std::iota(moved_to.begin(), moved_to.end(), 0);
  for (size_t i = 0; i < program.tasks.size(); ++i) {
    Task& task = program.tasks[i];
    for (Operand& operand : task.operands) operand.buffer = moved_to[operand.buffer];
    for (const program::Share& share : task.may_share) {
      if (!can_share(program, order ? &*order : nullptr, static_cast<int32_t>(i), share)) continue;
      int32_t& written = task.operands[share.written].buffer;
      const int32_t read = task.operands[share.read].buffer;
      Buffer& fresh = program.buffers[written];
      program.buffers[read].last_task = fresh.last_task;
      fresh.first_task = fresh.last_task = kNone;
      moved_to[written] = read;
      written = read;
    }
  }
}

}  // namespace npugraph::plan
