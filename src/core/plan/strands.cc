// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "plan/plan.h"
#include "program/task_order.h"

namespace npugraph::plan {
namespace {

using program::Buffer;
using program::BufferClass;
using program::kNone;
using program::Program;
using program::Task;
using program::TaskOrder;

// Whether a task allocates the buffer. The runtime allocates all others before the tasks of a segment run.
bool is_made_by_task(const Buffer& buffer) { return buffer.cls == BufferClass::kHeap && !buffer.preallocated; }

void add_wait(Program& program, int32_t task, int32_t other) {
  Task& waiting = program.tasks[task];
  if (task == other || program.tasks[other].stream == waiting.stream) return;
  const auto at = std::ranges::lower_bound(waiting.waits, other);
  if (at == waiting.waits.end() || *at != other) waiting.waits.insert(at, other);
}

// Makes each task that touches a buffer wait for the task that allocates it.
void wait_for_memory(Program& program) {
  for (int32_t t = 0; t < static_cast<int32_t>(program.tasks.size()); ++t) {
    for (size_t i = 0; i < program.tasks[t].operands.size(); ++i) {
      const Buffer& buffer = program.buffers[program.tasks[t].operands[i].buffer];
      if (is_made_by_task(buffer)) add_wait(program, t, buffer.first_task);
    }
  }
}

// If no task runs after all that touch a heap buffer, makes the last task of the Program wait for them.
void wait_for_release(Program& program) {
  const TaskOrder order(program);
  const auto touches = order.last_touches();
  const auto last = static_cast<int32_t>(program.tasks.size()) - 1;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    if (program.buffers[b].cls != BufferClass::kHeap || touches[b].empty()) continue;
    if (order.first_after(touches[b]) <= last) continue;
    for (const int32_t t : touches[b]) add_wait(program, last, t);
  }
}

// A wait for a task is implied if the previous task of the stream, or another task that is waited for, runs
// after that task.
void remove_implied_waits(Program& program) {
  const TaskOrder order(program);
  std::vector<int32_t> previous(program.tasks.size(), kNone);
  for (int32_t t = 0; t < static_cast<int32_t>(program.tasks.size()); ++t) {
    Task& task = program.tasks[t];
    for (int32_t p = t - 1; p >= 0 && previous[t] == kNone; --p) {
      if (program.tasks[p].stream == task.stream) previous[t] = p;
    }
    const std::vector<int32_t> waits = task.waits;
    std::erase_if(task.waits, [&](int32_t other) {
      const auto implies = [&](int32_t also) { return also != kNone && order.precedes(other, also); };
      return implies(previous[t]) || std::ranges::any_of(waits, implies);
    });
  }
}

}  // namespace

void order_strands(Program& program) {
  if (!program::has_streams(program)) return;
  wait_for_memory(program);
  wait_for_release(program);
  remove_implied_waits(program);
}

void extend_lives(Program& program) {
  if (!program::has_streams(program)) return;
  const TaskOrder order(program);
  const auto touches = order.last_touches();
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    Buffer& buffer = program.buffers[b];
    if (touches[b].empty()) continue;
    const auto last = static_cast<int32_t>(program.tasks.size()) - 1;
    const bool released = buffer.cls == BufferClass::kHeap;
    const int32_t end = released ? std::min(order.first_after(touches[b]), last) : order.last_beside(touches[b]);
    buffer.last_task = std::max(buffer.last_task, end);
  }
}

}  // namespace npugraph::plan
