// SPDX-License-Identifier: Apache-2.0
#include "plan/plan.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "program/program.h"
#include "program/task_order.h"

namespace npugraph::plan {

using program::Access;
using program::Buffer;
using program::BufferClass;
using program::kNone;
using program::Operand;
using program::Program;
using program::Task;

namespace {

// Moves arena buffers whose size a task defines to the heap. They are preallocated, because their tasks write into
// memory that they are given.
void move_late_sizes_to_heap(program::Program& program) {
  const std::vector<int32_t> defining_task = defining_tasks(program);
  for (Buffer& buffer : program.buffers) {
    if (buffer.cls != BufferClass::kArena || buffer.bytes.is_constant()) continue;
    if (defining_task[buffer.bytes.expr] == program::kNone) continue;
    buffer.cls = BufferClass::kHeap;
    buffer.preallocated = true;
  }
}

// Per buffer: whether the Program returns a window into it. Such a buffer lives until the Program ends if any
// task touches it.
std::vector<bool> find_returned(const Program& program) {
  std::vector<bool> returned(program.buffers.size(), false);
  for (const program::Output& output : program.outputs) {
    if (output.kind == program::Output::Kind::kTensor) returned[output.tensor.buffer] = true;
  }
  return returned;
}

// Fills Buffer::first_task, Buffer::last_task and Input::mutated.
void find_lives(Program& program) {
  for (Buffer& buffer : program.buffers) buffer.first_task = buffer.last_task = kNone;
  for (program::Input& input : program.inputs) input.mutated = false;

  const auto num_tasks = static_cast<int32_t>(program.tasks.size());
  for (int32_t task = 0; task < num_tasks; ++task) {
    for (const program::Operand& operand : program.tasks[task].operands) {
      Buffer& buffer = program.buffers[operand.buffer];
      if (buffer.first_task == kNone) buffer.first_task = task;
      buffer.last_task = task;
      const bool of_input = buffer.cls == BufferClass::kInput || buffer.cls == BufferClass::kParameter;
      if (of_input && operand.access != Access::kRead) program.inputs[buffer.source].mutated = true;
    }
  }

  const std::vector<bool> returned = find_returned(program);
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    Buffer& buffer = program.buffers[i];
    if (returned[i] && buffer.first_task != kNone) buffer.last_task = num_tasks - 1;
  }
}

// Fills Task::releases. Requires lives.
void release_heap(Program& program) {
  for (program::Task& task : program.tasks) task.releases.clear();
  const std::vector<bool> returned = find_returned(program);
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    if (buffer.cls != BufferClass::kHeap || returned[i] || buffer.last_task == kNone) continue;
    program.tasks[buffer.last_task].releases.push_back(static_cast<int32_t>(i));
  }
}

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

// Lets results take the memory of dying operands, as Task::may_share allows. Requires lives and keeps them right.
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

// Fills Program::segments: a segment ends after each task that defines a symbol and after the last task. A Program
// without tasks has one empty segment.
void cut_segments(program::Program& program) {
  program.segments.clear();
  const auto num_tasks = static_cast<int32_t>(program.tasks.size());
  for (int32_t task = 0; task < num_tasks; ++task) {
    if (!program.tasks[task].defines.empty()) program.segments.push_back(task + 1);
  }
  if (program.segments.empty() || program.segments.back() != num_tasks) program.segments.push_back(num_tasks);
}

}  // namespace

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
